// TypeScript of the wire schemas: plain interfaces whose comments say what the schemas say of their fields.

import { z } from "zod";
import { documentation, jsonSchemaOf, typeHints } from "../src/schemas/fields.js";

/** As what a schema is written: of requests as they are sent, of everything else as it is answered. */
export interface Form {
  io: "input" | "output";
  /** Whether lists of requests are written as `readonly`. */
  readonlyLists: boolean;
}

/** The schema that has the name: itself, or what it refines. */
function namedOne(schema: z.core.$ZodType): z.core.$ZodType | undefined {
  let one: z.core.$ZodType | undefined = schema;
  while (one !== undefined && documentation.get(one as z.ZodType)?.id === undefined) one = one._zod.parent;
  return one;
}

function nameOf(schema: z.core.$ZodType): string | undefined {
  const one = namedOne(schema);
  return one && documentation.get(one as z.ZodType)?.id;
}

const isRequest = (name: string): boolean => /(Params|ParamsBase|Query|Streaming)$/.test(name);

const LINE = 120;

/** A comment of one line, or of several where it is longer. */
export function comment(text: string, indent: string): string {
  const single = `${indent}/** ${text} */`;
  if (single.length <= LINE) return single;
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1]!;
    if (`${indent} * ${last} ${word}`.length > LINE) lines.push(word);
    else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
  }
  return [`${indent}/**`, ...lines.map((line) => `${indent} * ${line}`), `${indent} */`].join("\n");
}

type Json = { [key: string]: unknown };

/** The part of a field's JSON Schema that is not about null. */
function withoutNull(json: Json): Json {
  const branches = (json.anyOf as Json[] | undefined)?.filter(({ type }) => type !== "null") ?? [];
  return branches.length === 1 ? withoutNull(branches[0]!) : json;
}

/** Which values a field takes, as far as its type does not say it. */
export function rangeOf(json: Json): string | undefined {
  const value = withoutNull(json);
  const bound = (name: string) => (Math.abs(Number(value[name])) < Number.MAX_SAFE_INTEGER ? value[name] : undefined);
  const [least, most] = [bound("minimum"), bound("maximum")];
  const [above, below] = [bound("exclusiveMinimum"), bound("exclusiveMaximum")];
  const parts: string[] = [];
  if (least !== undefined && most !== undefined) parts.push(`${least} to ${most}`);
  else {
    if (least !== undefined) parts.push(`at least ${least}`);
    if (above !== undefined) parts.push(`above ${above}`);
    if (most !== undefined) parts.push(`at most ${most}`);
    if (below !== undefined) parts.push(`below ${below}`);
  }
  const { maxItems, minItems } = value;
  if (maxItems !== undefined) parts.push(`${minItems ? `${minItems} to ` : "at most "}${maxItems} entries`);
  if (value.minLength === 1) parts.push("not empty");
  if (value.type === "integer" && value.format !== "int64") {
    return ["a whole number", ...parts].join(", ");
  }
  return parts.length === 0 ? undefined : parts.join(", ");
}

const capital = (text: string) => text[0]!.toUpperCase() + text.slice(1);

/** What a comment says of a field: its meaning, its range in requests, its default. */
function fieldText(schema: z.core.$ZodType, form: Form): string | undefined {
  const { description, default: byDefault, deprecated } = documentation.get(schema as z.ZodType) ?? {};
  if (description === undefined) return undefined;
  const range = form.io === "input" ? rangeOf(jsonSchemaOf(schema as z.ZodType, form.io)) : undefined;
  // A default that the description tells stands last.
  const [meaning, told] = description.split(/(?<=\.) (?=Default: )/);
  const parts = [meaning!];
  if (range !== undefined) parts.push(`${capital(range)}.`);
  if (told !== undefined) parts.push(told);
  if (byDefault !== undefined) parts.push(`Default: ${JSON.stringify(byDefault)}.`);
  if (deprecated) parts.push("@deprecated");
  return parts.join(" ");
}

const isOptional = (schema: z.core.$ZodType, form: Form): boolean =>
  typeHints.get(schema)?.isOptional ?? (form.io === "input" ? schema._zod.optin : schema._zod.optout) === "optional";

/** What a schema is made of. */
function partsOf(schema: z.core.$ZodType): readonly z.core.$ZodType[] {
  const hint = typeHints.get(schema);
  const { def } = (schema as z.core.$ZodTypes)._zod;
  const own = (): readonly z.core.$ZodType[] => {
    if (def.type === "object") return Object.values(def.shape);
    if (def.type === "array") return [def.element];
    if (def.type === "record") return [def.valueType];
    if (def.type === "union") return def.options;
    if (def.type === "optional" || def.type === "nullable") return [def.innerType];
    if (def.type === "pipe") return [def.in, def.out];
    return [];
  };
  return [...(hint?.base ? [hint.base] : []), ...own(), ...(hint?.as ? [hint.as.schema] : [])];
}

export interface NamedSchema {
  name: string;
  schema: z.core.$ZodType;
  form: Form;
}

/** Everything with a name in `roots`, each after what it is made of; what `known` has already is left out. */
export function namedSchemas(
  roots: readonly z.core.$ZodType[],
  known: ReadonlySet<string>,
  readonlyLists: boolean,
): NamedSchema[] {
  const found = new Map<string, NamedSchema>();
  const seen = new Set<z.core.$ZodType>();
  const visit = (given: z.core.$ZodType, outer: Form) => {
    const schema = namedOne(given) ?? given;
    if (seen.has(schema)) return;
    seen.add(schema);
    const name = nameOf(schema);
    const form: Form = name !== undefined && isRequest(name) ? { io: "input", readonlyLists } : outer;
    for (const part of partsOf(schema)) visit(part, form);
    if (name !== undefined && !known.has(name) && !found.has(name)) found.set(name, { name, schema, form });
  };
  for (const root of roots) visit(root, { io: "output", readonlyLists });
  return [...found.values()];
}

/** The declaration of a schema with a name. */
export function declaration({ name, schema, form }: NamedSchema): string {
  const head = comment(documentation.get(schema as z.ZodType)!.description!, "");
  const hint = typeHints.get(schema);
  if (!(schema instanceof z.ZodObject) || hint?.type !== undefined) {
    return `${head}\nexport type ${name} = ${typeText(schema, form, "")};`;
  }
  const heritage = hint?.base === undefined ? "" : ` extends ${nameOf(hint.base)}`;
  return `${head}\nexport interface ${name}${heritage} ${objectText(schema, form, "")}`;
}

/** A schema's type, by its name where it has one. */
const reference = (schema: z.core.$ZodType, form: Form, indent: string): string =>
  nameOf(schema) ?? typeText(schema, form, indent);

function objectText(schema: z.ZodObject, form: Form, indent: string): string {
  const inner = `${indent}  `;
  const { base, index } = typeHints.get(schema) ?? {};
  const lines: string[] = [];
  for (const [key, field] of Object.entries(schema.shape as z.ZodRawShape)) {
    if (base?.shape[key] === field) continue;
    const text = fieldText(field, form);
    if (text !== undefined) lines.push(comment(text, inner));
    lines.push(`${inner}${key}${isOptional(field, form) ? "?" : ""}: ${reference(field, form, inner)};`);
  }
  if (index !== undefined) lines.push(`${inner}/** Further fields. */`, `${inner}[${index}: string]: unknown;`);
  return lines.length === 0 ? "{}" : `{\n${lines.join("\n")}\n${indent}}`;
}

function typeText(schema: z.core.$ZodType, form: Form, indent: string): string {
  const hint = typeHints.get(schema);
  if (hint?.type !== undefined) return hint.type;
  const of = (inner: z.core.$ZodType) => reference(inner, form, indent);
  if (hint?.as !== undefined && (hint.as.on === "both" || form.io === "output")) return of(hint.as.schema);
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "string":
    case "number":
    case "boolean":
    case "null":
    case "unknown":
      return def.type;
    case "literal":
      return def.values.map((value) => JSON.stringify(value)).join(" | ");
    case "enum":
      return Object.values(def.entries)
        .map((value) => JSON.stringify(value))
        .join(" | ");
    case "object":
      return objectText(schema as z.ZodObject, form, indent);
    case "array": {
      const element = of(def.element);
      const list = element.includes(" | ") ? `(${element})[]` : `${element}[]`;
      return form.io === "input" && form.readonlyLists && !hint?.isMutable ? `readonly ${list}` : list;
    }
    case "record":
      return `Record<string, ${of(def.valueType)}>`;
    case "union":
      return [...new Set(def.options.map(of))].join(" | ");
    case "optional":
      return of(def.innerType);
    case "nullable":
      return `${of(def.innerType)} | null`;
    case "pipe":
      return of(form.io === "input" ? def.in : def.out);
    default:
      throw new Error(`a schema of the kind "${def.type}" has no type: say it with typed() or documentedAs()`);
  }
}
