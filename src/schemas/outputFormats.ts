// What replies follow: the two ways of asking for it.

import * as z from "zod";
import { field, named, typed } from "./fields.js";
import { anyValue, list, looseObject } from "./limited.js";
import { freeObject, MAX_TEXTS } from "./parts.js";

const jsonSchemaFormat = looseObject({
  name: field(z.string().nullish(), "Without effect."),
  description: field(z.string().nullish(), "Without effect."),
  schema: field(
    typed(z.union([freeObject, z.boolean()]).nullish(), "{ [key: string]: unknown } | null"),
    "The JSON Schema. A keyword that cannot be enforced is a ValidationError.",
  ),
  strict: field(z.boolean().nullish(), "Whether objects have no properties but those that the schema names.", {
    default: false,
  }),
});

export const responseFormat = named(
  "ChatResponseFormat",
  looseObject({
    type: field(
      typed(z.enum(["text", "json_object", "json_schema", "structural_tag"]), "string"),
      '"text", "json_object", "json_schema" or "structural_tag".',
    ),
    json_schema: field(jsonSchemaFormat.nullish(), 'With the type "json_schema": what the reply follows.'),
    format: field(
      typed(anyValue.optional(), "{ [key: string]: unknown }"),
      'With the type "structural_tag": either this, or `structures` and `triggers`.',
    ),
    structures: field(
      typed(anyValue.optional(), "readonly { begin: string; schema: { [key: string]: unknown }; end: string }[]"),
      "Where a trigger has been written, the reply goes on as one of these: with `begin`, a value of the JSON Schema `schema`, and `end`.",
    ),
    triggers: field(typed(anyValue.optional(), "readonly string[]"), "Texts with which a structure begins."),
  }).superRefine((format, ctx) => {
    if (format.type !== "json_schema") return;
    if (format.json_schema == null) {
      ctx.addIssue({ code: "custom", path: ["json_schema"], message: 'is required when the type is "json_schema"' });
    } else if (format.json_schema.schema == null) {
      ctx.addIssue({ code: "custom", path: ["json_schema", "schema"], message: "is required" });
    }
  }),
  "The form that replies have.",
);

const CONSTRAINTS = ["json", "regex", "choice", "grammar", "json_object", "structural_tag"] as const;

export const structuredOutputs = named(
  "StructuredOutputs",
  looseObject({
    json: field(
      z.union([z.string().min(1), freeObject, z.boolean()]).nullish(),
      "A JSON Schema, as text or as an object. A keyword that cannot be enforced is a ValidationError.",
    ),
    regex: field(z.string().nullish(), "A regular expression that the whole reply matches."),
    choice: field(list(z.string(), MAX_TEXTS).min(1).nullish(), "Texts of which the reply is one."),
    grammar: field(z.string().min(1).nullish(), "A grammar in GBNF, EBNF or Lark."),
    json_object: field(z.boolean().nullish(), "true: any JSON object."),
    structural_tag: field(
      z.union([z.string().min(1), freeObject]).nullish(),
      "Free text with constrained passages, as JSON text or as an object.",
    ),
    disable_fallback: field(z.boolean().nullish(), "Without effect.", { default: false }),
    disable_any_whitespace: field(z.boolean().nullish(), "Write JSON without spaces that it does not need.", {
      default: false,
    }),
    disable_additional_properties: field(
      z.boolean().nullish(),
      "Objects have no properties but those that the schema names.",
      { default: false },
    ),
    any_order: field(
      z.boolean().nullish(),
      "Properties may come in any order. Where a schema declares more than 8 and all orders are too many, each of those that it does not require may then come again; where it requires more than 8, they keep the order in which it declares them. In a schema of hundreds of objects, 3 take the place of 8 in the later ones.",
      { default: false },
    ),
    whitespace_pattern: field(
      z.string().nullish(),
      "A regular expression of the spaces between the parts of JSON. Default: as usual.",
    ),
    _backend: field(typed(z.enum(["auto", "anneal"]).nullish(), "string | null"), 'Either "auto" or "anneal".', {
      default: "auto",
    }),
    _backend_was_auto: field(z.boolean().nullish(), "Without effect.", { default: false }),
  }).superRefine((outputs, ctx) => {
    const given = CONSTRAINTS.filter((name) => outputs[name] != null && outputs[name] !== false);
    if (given.length === 1) return;
    const what = given.length === 0 ? "none is set" : `${given.join(" and ")} are set`;
    ctx.addIssue({ code: "custom", message: `exactly one of ${CONSTRAINTS.join(", ")} must be set; ${what}` });
  }),
  "What the reply follows: exactly one of `json`, `regex`, `choice`, `grammar`, `json_object` and `structural_tag`.",
);
