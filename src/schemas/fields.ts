// What is said of a field beyond what is checked. The public types (src/types), the OpenAPI document and the reference are
// made of it, so nothing is written twice.
//
// A field of a request is one line of its schema: type and range, meaning, default. `npm run generate` then writes the types
// and the reference anew. A number that tokens are drawn by (a sampling parameter) is an entry of src/samplingNumbers.ts instead,
// which says what else it takes.

import * as z from "zod";
import { process as writeJsonSchema } from "zod/v4/core";

export interface Documentation {
  /** Of an object with a name of its own: an interface, and a component of the OpenAPI document. */
  id?: string;
  description?: string;
  /** What stands for an absent field; defaults that depend on something are told in the description. */
  default?: unknown;
  deprecated?: boolean;
}

export const documentation = z.registry<Documentation>();

/** How a schema's public type is written where its shape does not say it. */
interface TypeHint {
  /** TypeScript, instead of what the shape gives. */
  type?: string;
  /** A list of a request that callers may go on adding to. */
  isMutable?: boolean;
  isOptional?: boolean;
  /** Name of the index signature of an object that is open in its type too. */
  index?: string;
  /** The object whose fields it has too, in the same words. */
  base?: z.ZodObject;
  /** Documented as this one; "output": only where it is answered, after its transformation. */
  as?: { schema: z.ZodType; on: "both" | "output" };
}

export const typeHints = new WeakMap<z.core.$ZodType, TypeHint>();

function document(schema: z.ZodType, more: Documentation): void {
  const { id: _, ...known } = documentation.get(schema) ?? {};
  documentation.add(schema, { ...known, ...more });
}

function hint(schema: z.ZodType, more: TypeHint): void {
  typeHints.set(schema, { ...typeHints.get(schema), ...more });
}

/** A schema of several fields: each gets a copy. */
export function shared<S extends z.ZodType>(schema: S): S {
  document(schema, {});
  return schema;
}

/** A field: its schema, what it means, in which unit, and where it is not one value, what stands for it by default. */
export function field<S extends z.ZodType>(schema: S, description: string, more: Omit<Documentation, "id"> = {}): S {
  const isFilled = documentation.get(schema)?.default !== undefined;
  // What is said of a schema with a name, or of another field, stays.
  const own = documentation.has(schema) && !isFilled ? (schema.clone() as S) : schema;
  const hints = typeHints.get(schema);
  if (own !== schema && hints !== undefined) typeHints.set(own, hints);
  document(own, { description, ...more });
  return own;
}

/** An object (or a choice of them) with a name: a public type. Names that end in "Params" or "Query" are of requests. */
export function named<S extends z.ZodType>(id: string, schema: S, description: string): S {
  document(schema, { id, description });
  return schema;
}

/** Null and absent stand for `value`. */
export function byDefault<S extends z.ZodType>(schema: S, value: z.output<S>) {
  const filled = schema.nullish().transform((given) => (given ?? value) as z.output<S>);
  document(filled, { default: value });
  return filled;
}

/** Public types say `type` of this schema: where they are looser than the check, or the check is not by shape. */
export function typed<S extends z.ZodType>(schema: S, type: string): S {
  hint(schema, { type });
  return schema;
}

export function mutable<S extends z.ZodType>(schema: S): S {
  hint(schema, { isMutable: true });
  return schema;
}

/** An object whose type says that further fields may be there. */
export function open<S extends z.ZodType>(schema: S, index: string): S {
  hint(schema, { index });
  return schema;
}

/** An object that is `base` with further fields, in its type too. */
export function extending<S extends z.ZodType>(base: z.ZodObject, schema: S): S {
  hint(schema, { base });
  return schema;
}

/** What a call takes: `base` and `stream`, of which `sentence` says what it changes. `what` is asked for. */
export function streamable<Shape extends z.ZodRawShape, Config extends z.core.$ZodObjectConfig>(
  base: z.ZodObject<Shape, Config>,
  { id, what, sentence }: { id: string; what: string; sentence: string },
) {
  const schema = base.extend({ stream: field(byDefault(z.boolean(), false), sentence) });
  return named(id, extending(base as z.ZodObject, schema), `${what}.`);
}

/**
 * What the two kinds of calls take: `base` with `stream` off, and with it on. `what` is asked for, in one piece or as `streamed` says;
 * `whole` and `parts`: the same in the words of the field.
 */
export function streamKinds(
  base: z.ZodObject,
  told: { id: string; what: string; whole: string; parts: string; streamed: string },
): z.ZodObject[] {
  const kind = (name: string, stream: z.ZodType, sentence: string, how: string) =>
    named(told.id + name, extending(base, base.extend({ stream: field(stream, sentence) })), `${told.what}, ${how}.`);
  return [
    kind("NonStreaming", z.literal(false).nullish(), told.whole, "in one piece"),
    kind("Streaming", z.literal(true), told.parts, told.streamed),
  ];
}

/** A field that types let be left out, so that what other libraries write fits; the check refuses it then. */
export function optionalInType<S extends z.ZodType>(schema: S): S {
  hint(schema, { isOptional: true });
  return schema;
}

/** Documents `schema` as another: what is checked elsewhere, or (on "output") what a transformation makes of it. */
export function documentedAs<S extends z.ZodType>(schema: S, other: z.ZodType, on: "both" | "output" = "both"): S {
  hint(schema, { as: { schema: other, on } });
  const ownProcessor = schema._zod.processJSONSchema!;
  schema._zod.processJSONSchema = (ctx, json, params) => {
    if (on === "output" && ctx.io === "input") return ownProcessor(ctx, json, params);
    writeJsonSchema(other, ctx as z.core.ToJSONSchemaContext, params);
    ctx.seen.get(schema)!.ref = other;
  };
  return schema;
}

/** JSON Schema of what is sent ("input") or answered ("output"), with its documentation; named objects under `$defs`. */
export function jsonSchemaOf(schema: z.ZodType, io: "input" | "output"): Record<string, unknown> {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    metadata: documentation,
    unrepresentable: "any",
    override({ zodSchema, jsonSchema }) {
      const byDefault = documentation.get(zodSchema as z.core.$ZodType as z.ZodType)?.default;
      if (byDefault !== undefined) jsonSchema.default = byDefault as z.core.JSONSchema.JSONSchema["default"];
      // Readers are to bear fields that a later version adds.
      if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
    },
  });
  return rest;
}
