// The OpenAPI document as a page for people: one file without scripts, that loads nothing from anywhere.

type Json = Record<string, unknown>;

interface Schema {
  $ref?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  type?: string | string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  properties?: Record<string, Schema>;
  required?: string[];
  description?: string;
  default?: unknown;
}

interface Content {
  [mediaType: string]: { schema: Schema };
}

interface Operation {
  summary: string;
  security?: unknown[];
  parameters?: { name: string; in: string; description?: string; schema: Schema }[];
  requestBody?: { content: Content };
  responses: Record<string, { description: string; content?: Content }>;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => ESCAPES[character]!);
/** Text in which `code` is marked. */
const prose = (text: string): string => escaped(text).replace(/`([^`]+)`/g, "<code>$1</code>");
const code = (text: string): string => `<code>${escaped(text)}</code>`;
const anchor = (name: string): string => name.replace(/[^\w]+/g, "-");

function typeOf(schema: Schema): string {
  const { $ref, anyOf, oneOf, enum: values, const: value, type, items, additionalProperties, properties } = schema;
  if ($ref !== undefined) {
    const name = $ref.slice($ref.lastIndexOf("/") + 1);
    return `<a href="#${anchor(name)}">${escaped(name)}</a>`;
  }
  const branches = anyOf ?? oneOf;
  if (branches !== undefined) return [...new Set(branches.map(typeOf))].join(" or ");
  if (values !== undefined) return values.map((one) => code(JSON.stringify(one))).join(", ");
  if (value !== undefined) return code(JSON.stringify(value));
  if (Array.isArray(type)) return escaped(type.join(" or "));
  if (type === "array") return `list of ${items === undefined ? "anything" : typeOf(items)}`;
  if (type === "object" && properties === undefined && typeof additionalProperties === "object") {
    return `map to ${typeOf(additionalProperties)}`;
  }
  return escaped(type ?? "anything");
}

function rows(schema: Schema, prefix = ""): string {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {})
    .map(([name, field]) => {
      const path = `${prefix}${name}`;
      const byDefault = field.default === undefined ? "" : ` Default: ${code(JSON.stringify(field.default))}.`;
      const mark = required.has(name) ? " *" : "";
      const row = `<tr><td>${code(path)}${mark}</td><td>${typeOf(field)}</td><td>${prose(field.description ?? "")}${byDefault}</td></tr>`;
      const inner = [field, ...(field.anyOf ?? [])].find(({ properties }) => properties !== undefined);
      return row + (inner === undefined ? "" : rows(inner, `${path}.`));
    })
    .join("\n");
}

const table = (head: readonly string[], body: string): string =>
  body === "" ? "" : `<table><tr>${head.map((title) => `<th>${title}</th>`).join("")}</tr>\n${body}</table>`;

const fields = (schema: Schema): string => table(["Field", "Type", "Meaning"], rows(schema));

function contents(content: Content | undefined): string {
  return Object.entries(content ?? {})
    .map(([mediaType, { schema }]) => `${typeOf(schema)} (${escaped(mediaType)})`)
    .join("; ");
}

const titleOf = (method: string, path: string): string => `${method.toUpperCase()} ${path}`;

function operation(method: string, path: string, told: Operation): string {
  const title = titleOf(method, path);
  const parameters = (told.parameters ?? [])
    .map(
      (one) =>
        `<tr><td>${code(one.name)} (${one.in})</td><td>${typeOf(one.schema)}</td><td>${prose(one.description ?? "")}</td></tr>`,
    )
    .join("\n");
  const responses = Object.entries(told.responses)
    .map(
      ([status, { description, content }]) =>
        `<tr><td>${status}</td><td>${contents(content)}</td><td>${prose(description)}</td></tr>`,
    )
    .join("\n");
  const answered = told.responses[200]?.content?.["application/json"]?.schema;
  const whole = Object.values(told.requestBody?.content ?? {})[0]?.schema;
  return [
    `<section><h3 id="${anchor(title)}">${code(title)}</h3>`,
    `<p>${prose(told.summary)}.${told.security?.length === 0 ? " Needs no key." : ""}</p>`,
    table(["Parameter", "Type", "Meaning"], parameters),
    told.requestBody === undefined ? "" : `<p>Takes ${contents(told.requestBody.content)}.</p>`,
    whole?.properties === undefined ? "" : fields(whole),
    table(["Status", "Body", "When"], responses),
    answered?.properties === undefined ? "" : `<p>The body of 200:</p>${fields(answered)}`,
    "</section>",
  ].join("\n");
}

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:70rem;padding:1rem 2rem;color:#222;background:#fff}
code{font:.9em ui-monospace,monospace}table{border-collapse:collapse;width:100%;margin:.5rem 0 1rem}
th,td{border:1px solid #ccc;padding:.25rem .5rem;text-align:left;vertical-align:top}nav li{list-style:none}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}a{color:#8bf}}`;

export function docsPage(document: Json): string {
  const paths = Object.entries(document.paths as Record<string, Record<string, Operation>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, told]) => ({ method, path, told })),
  );
  const { schemas } = document.components as { schemas: Record<string, Schema> };
  const links = paths.map(({ method, path, told }) => {
    const title = titleOf(method, path);
    return `<li><a href="#${anchor(title)}">${code(title)}</a> ${prose(told.summary)}</li>`;
  });
  const objects = Object.entries(schemas).map(([name, schema]) => {
    const body = schema.properties === undefined ? `<p>It is ${typeOf(schema)}.</p>` : fields(schema);
    return `<section><h3 id="${anchor(name)}">${escaped(name)}</h3><p>${prose(schema.description ?? "")}</p>${body}</section>`;
  });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>anneal</title><style>${STYLE}</style></head><body>
<h1>anneal</h1>
<p>All but what says otherwise needs <code>Authorization: Bearer KEY</code>. The same for programs: <a href="openapi.json"><code>/openapi.json</code></a>, which needs a key.
Fields marked * are required.</p>
<nav><ul>
${links.join("\n")}
</ul></nav>
<h2>Operations</h2>
${paths.map(({ method, path, told }) => operation(method, path, told)).join("\n")}
<h2>Objects</h2>
${objects.join("\n")}
</body></html>
`;
}
