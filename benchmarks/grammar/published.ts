/** Published schemas with valid and invalid instances: a folder of files as JSONSchemaBench's `maskbench/data` has them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface PublishedCase {
  name: string;
  /** As the file has it. */
  schema: string;
  instances: { text: string; valid: boolean }[];
}

/** Every `step`th file of the folder, by name. */
export function* publishedCases(folder: string, step: number): Generator<PublishedCase> {
  const names = readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort();
  for (let i = 0; i < names.length; i += step) {
    const file = members(compact(readFileSync(join(folder, names[i]!), "utf8")));
    const instances = items(file.get("tests") ?? "[]").map((test) => {
      const { data, valid } = Object.fromEntries(members(test)) as { data: string; valid: string };
      return { text: data, valid: valid === "true" };
    });
    yield { name: names[i]!.slice(0, -".json".length), schema: file.get("schema")!, instances };
  }
}

/**
 * Without white space, strings as JSON.stringify spells them. Reading the text as a value would lose the spelling of numbers
 * and the order of names such as "1".
 */
function compact(text: string): string {
  return text.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (part) =>
    part.startsWith('"') ? JSON.stringify(JSON.parse(part)) : "",
  );
}

/** The texts between the outermost brackets of a compact list or object, comma by comma. */
function items(list: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let from = 1;
  for (const { 0: token, index } of list.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},]/g)) {
    const closes = token === "]" || token === "}";
    if (closes) depth--;
    if ((token === "," && depth === 1) || (closes && depth === 0)) {
      if (index > from) found.push(list.slice(from, index));
      from = index + 1;
    }
    if (token === "[" || token === "{") depth++;
  }
  return found;
}

function members(object: string): Map<string, string> {
  return new Map(
    items(object).map((member): [string, string] => {
      const name = /^"(?:[^"\\]|\\.)*"/.exec(member)![0];
      return [JSON.parse(name) as string, member.slice(name.length + 1)];
    }),
  );
}
