// Single values as schemas.

import type { JsonObject } from "./document.js";

/** The schema that only this list or object satisfies. */
export function exactly(value: unknown): JsonObject {
  if (Array.isArray(value)) {
    return { type: "array", prefixItems: value.map(constant), minItems: value.length, maxItems: value.length };
  }
  const members = Object.entries(value as JsonObject);
  return {
    type: "object",
    properties: Object.fromEntries(members.map(([key, one]) => [key, constant(one)])),
    required: members.map(([key]) => key),
    additionalProperties: false,
  };
}

function constant(value: unknown): JsonObject {
  return { const: value };
}
