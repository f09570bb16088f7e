// The reference: every operation and every object of the OpenAPI document, as tables.

import { rangeOf } from "./types.js";

export type Json = { [key: string]: Json } & { [index: number]: Json };

const INTRODUCTION = `# Reference

Made of the wire schemas by \`npm run generate\`; a server tells the same at \`/openapi.json\`, and the package has it as
\`anneal/openapi.json\`. In process the resources of
an engine take and answer the same objects. Fields marked * are required; null stands for an absent one wherever it is a type.`;

const nameOf = ($ref: string) => $ref.slice($ref.lastIndexOf("/") + 1);
const anchor = (name: string) => `[${name}](#${name.toLowerCase()})`;
const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");

/** A type in words; objects with a name by a link. */
function typeOf(schema: Json): string {
  const {
    $ref,
    anyOf,
    oneOf,
    enum: values,
    const: value,
    type,
    items,
    additionalProperties,
    properties,
  } = schema as unknown as {
    $ref?: string;
    anyOf?: Json[];
    oneOf?: Json[];
    enum?: unknown[];
    const?: unknown;
    type?: string | string[];
    items?: Json;
    additionalProperties?: Json;
    properties?: Json;
  };
  if ($ref !== undefined) return anchor(nameOf($ref));
  if (anyOf ?? oneOf) return [...new Set((anyOf ?? oneOf)!.map(typeOf))].join(" or ");
  if (values !== undefined) return values.map((one) => `\`${JSON.stringify(one)}\``).join(", ");
  if (value !== undefined) return `\`${JSON.stringify(value)}\``;
  if (Array.isArray(type)) return type.join(" or ");
  if (type === "array") return `list of ${items ? typeOf(items) : "anything"}`;
  if (type === "object" && !properties && additionalProperties && Object.keys(additionalProperties).length > 0) {
    return `map to ${typeOf(additionalProperties)}`;
  }
  return type ?? "anything";
}

/** The fields of an object, those of objects within it under their paths. */
function rows(schema: Json, prefix = ""): string[] {
  const required = new Set((schema.required as unknown as string[] | undefined) ?? []);
  return Object.entries((schema.properties ?? {}) as Record<string, Json>).flatMap(([name, field]) => {
    const range = rangeOf(field);
    const byDefault = field.default as unknown;
    const told = [
      (field.description as unknown as string | undefined) ?? "",
      range === undefined ? "" : `(${range})`,
      byDefault === undefined ? "" : `Default: \`${JSON.stringify(byDefault)}\`.`,
    ];
    const path = `${prefix}${name}`;
    const row = `| \`${path}\`${required.has(name) ? " *" : ""} | ${cell(typeOf(field))} | ${cell(told.filter(Boolean).join(" "))} |`;
    const inner = [field, ...((field.anyOf ?? []) as unknown as Json[])].find(
      ({ properties }) => properties !== undefined,
    );
    return [row, ...(inner ? rows(inner, `${path}.`) : [])];
  });
}

function table(schema: Json): string {
  const lines = rows(schema);
  return lines.length === 0 ? "" : ["| Field | Type | Meaning |", "|---|---|---|", ...lines].join("\n");
}

function operation(method: string, path: string, told: Json): string {
  const parts = [`### ${method.toUpperCase()} ${path}`, `${told.summary}.`];
  const parameters = ((told.parameters ?? []) as unknown as Json[]).map(
    ({ name, description, schema, in: place }) =>
      `| \`${name}\` (${place}) | ${cell(typeOf(schema!))} | ${cell(String(description))} |`,
  );
  if (parameters.length > 0) parts.push(["| Parameter | Type | Meaning |", "|---|---|---|", ...parameters].join("\n"));
  const contents = (content: Json | undefined) => Object.entries((content ?? {}) as Record<string, Json>);
  for (const [type, { schema }] of contents(told.requestBody?.content)) {
    parts.push(type === "application/json" ? `Takes ${typeOf(schema!)}.` : `Takes \`${type}\`.`);
    if (schema!.properties) parts.push(table(schema!));
  }
  for (const [type, { schema }] of contents(told.responses![200]!.content)) {
    const how =
      type === "application/json"
        ? ""
        : type === "text/event-stream"
          ? " as events, if they are asked for"
          : ` (${type})`;
    parts.push(`Answers ${typeOf(schema!)}${how}.`);
    if (schema!.properties) parts.push(table(schema!));
  }
  return parts.filter(Boolean).join("\n\n");
}

export function reference(document: Json): string {
  const operations = Object.entries(document.paths as Record<string, Json>).flatMap(([path, methods]) =>
    Object.entries(methods as Record<string, Json>).map(([method, told]) => operation(method, path, told)),
  );
  const objects = Object.entries(document.components!.schemas as Record<string, Json>).map(([name, schema]) => {
    const body = schema.properties ? table(schema) : `It is ${typeOf(schema)}.`;
    return [`### ${name}`, String(schema.description), body].filter(Boolean).join("\n\n");
  });
  return `${[INTRODUCTION, "## Operations", ...operations, "## Objects", ...objects].join("\n\n")}\n`;
}
