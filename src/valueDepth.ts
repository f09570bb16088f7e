// How deep the values may nest that a request has in its fields.

import { MAX_DEPTH } from "./jsonBytes.js";

/** The rest is for what lies around them. */
const MAX_VALUE_DEPTH = MAX_DEPTH - 100;

export const DEPTH_MESSAGE = `is nested more than ${MAX_VALUE_DEPTH} deep`;

export function isDeep(value: unknown, allowed = MAX_VALUE_DEPTH): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (allowed === 0) return true;
  if (Array.isArray(value)) {
    for (const item of value) if (isDeep(item, allowed - 1)) return true;
    return false;
  }
  for (const key in value) if (isDeep((value as Record<string, unknown>)[key], allowed - 1)) return true;
  return false;
}
