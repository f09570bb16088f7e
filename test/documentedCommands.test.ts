// What the guides tell a reader to type: every command and option is there, every script and file, every address has a route.
// What stands in other fences is well formed.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseSync } from "vite";
import { describe, expect, it } from "vitest";
import { httpDocument } from "../.generate/http.js";
import { checkArguments, findCommand, isGroup } from "../src/cli/command.js";
import { commands } from "../src/cli/commands.js";
import { readFlags } from "../src/cli/flags.js";

const root = join(import.meta.dirname, "..");
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

interface Fence {
  document: string;
  language: string;
  text: string;
}

const fences = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], {
  cwd: root,
  encoding: "utf8",
})
  .trim()
  .split("\n")
  .filter((document) => existsSync(join(root, document)))
  .flatMap((document): Fence[] => {
    const whole = readFileSync(join(root, document), "utf8");
    const found = whole.matchAll(/^```(\w+)[^\n]*\n([\s\S]*?)^```/gm);
    return [...found].map(([, language, text]) => ({ document, language: language!, text: text! }));
  });

const inLanguage = (...languages: string[]) => fences.filter(({ language }) => languages.includes(language));

/** Commands of a shell text, each as its words. */
function commandsOf(text: string): string[][] {
  const lines = text.replace(/\\\n/g, " ").split("\n");
  return lines.flatMap((line) => {
    const list: string[][] = [[]];
    for (const [word] of line.matchAll(/(?:"(?:\\.|[^"\\])*"|'[^']*'|[^\s"'])+/g)) {
      if (word.startsWith("#")) break;
      if (["&&", "||", "|", ";", "&"].includes(word)) list.push([]);
      else list.at(-1)!.push(word.replace(/^(["'])([\s\S]*)\1$/, "$2"));
    }
    return list.filter((words) => words.length > 0);
  });
}

/** Of Debian's and of Python's packages, which are not ours to know. */
const isInstallation = (words: readonly string[]) => /^(apt|pip) install [\w.+ =-]+$/.test(words.join(" "));

/** @throws Error saying what is wrong with a command. */
function checkCommand(words: readonly string[]): void {
  if (isInstallation(words)) return;
  const [program, ...args] = words.slice(words.findIndex((word) => !/^[A-Z_]+=/.test(word)));
  if (program === "anneal") checkAnneal(args);
  else if (program === "npx" && args[0] === "anneal") checkAnneal(args.slice(1));
  else if (program === "npm") checkNpm(args);
  else if (program === "curl") checkAddress(args);
  else if (program === "node" || (program === "npx" && args[0] === "tsx")) {
    const file = args.find((word) => /\.(ts|m?js)$/.test(word))!;
    if (!existsSync(join(root, file))) throw new Error(`there is no ${file}`);
  } else throw new Error(`nothing is known of ${program}`);
}

function checkAnneal(words: readonly string[]): void {
  const { found, rest } = findCommand(commands, words);
  if (isGroup(found)) return;
  const { positionals } = readFlags(rest, found.flags, {});
  checkArguments(found, positionals);
}

function checkNpm(args: readonly string[]): void {
  const [verb, name, ...rest] = args;
  if (["ci", "install"].includes(verb!)) return;
  const script = verb === "run" ? name! : verb!;
  if (!(script in scripts)) throw new Error(`there is no script ${script}`);
  const given = verb === "run" ? rest : args.slice(1);
  const path = given.find((word) => /^[\w-]+\//.test(word));
  if (path && !existsSync(join(root, path))) throw new Error(`there is no ${path}`);
}

function checkAddress(args: readonly string[]): void {
  const url = new URL(args.find((word) => word.startsWith("http"))!);
  const { paths } = httpDocument() as { paths: Record<string, object> };
  const operations = paths[url.pathname] ?? {};
  const data = args[args.indexOf("-d") + 1];
  const method = args.includes("-d") ? "post" : "get";
  if (!(method in operations)) throw new Error(`there is no ${method} ${url.pathname}`);
  if (args.includes("-d")) JSON.parse(data!);
}

describe("what is typed in a shell", () => {
  it.each(inLanguage("sh", "bash", "console"))("as $document says", ({ text }) => {
    for (const words of commandsOf(text)) expect(() => checkCommand(words), words.join(" ")).not.toThrow();
  });

  it("and what a service starts", () => {
    const started = inLanguage("ini").flatMap(({ text }) => [...text.matchAll(/^ExecStart=\S+ \S+\/main\.js (.*)$/gm)]);
    expect(started.length).toBeGreaterThan(0);
    for (const [, words] of started) expect(() => checkAnneal(words!.split(" "))).not.toThrow();
  });

  it.each([
    ["npx anneal serv", 'there is no command "serv"'],
    ["npx anneal serve --prot 1", "--prot"],
    ["npx anneal train", "takes"],
    ["npm run biuld", "there is no script"],
    ["npm test -- test/nowhere.test.ts", "there is no test/nowhere.test.ts"],
    ["node native/nothing.mjs", "there is no native/nothing.mjs"],
    ["curl http://127.0.0.1:8000/v1/chat/complete -d '{}'", "there is no post"],
    ["pip uninstall anneal", "nothing is known"],
    ["HOME=. brew install anneal", "nothing is known of brew"],
  ])("is not %s", (line, fault) => {
    expect(() => checkCommand(commandsOf(line)[0]!)).toThrow(fault);
  });
});

describe("other fences", () => {
  it.each(inLanguage("js"))("of $document are programs, or lines of JSON", ({ text }) => {
    const isJson = text.split("\n").every((line) => line === "" || line.startsWith("{"));
    if (isJson) for (const line of text.trim().split("\n")) JSON.parse(line);
    else expect(parseSync("program.mjs", text).errors).toEqual([]);
  });

  it.each(inLanguage("json"))("of $document are JSON", ({ text }) => {
    JSON.parse(text);
  });

  it.each(inLanguage("jsonl"))("of $document are JSON in every line", ({ text }) => {
    for (const line of text.trim().split("\n")) JSON.parse(line);
  });

  it.each(inLanguage("nginx"))("of $document close what they open, and end every directive", ({ text }) => {
    const lines = text.split("\n").map((line) => line.trim());
    for (const line of lines.filter(Boolean)) expect(line).toMatch(/[;{}]$/);
    const count = (end: string) => lines.filter((line) => line.endsWith(end)).length;
    expect(count("{")).toBe(count("}"));
  });
});
