import type { JsonFields } from "./jsonFields.js";

/** What `layer_types` says of each of `count` layers, one of `known`; null: it is absent. */
export function layerTypesOf(fields: JsonFields, count: number, known: readonly string[]): string[] | null {
  const name = "layer_types";
  if (fields.get(name) === null) return null;
  const types = fields.strings(name);
  if (types.length !== count) fields.fail(name, `must have ${count} entries (num_hidden_layers)`);
  const other = types.find((type) => !known.includes(type));
  if (other !== undefined) fields.fail(name, `contains "${other}"; known for this family are ${known.join(", ")}`);
  return types;
}
