// How much a plain value holds, counted no further than necessary.

/** Characters that are as much work as one value. */
const CHARACTERS = 64;

/** Fields of one object that a request may have: more than any of its maps. To list those of a larger one takes a stall each time. */
export const MAX_OBJECT_FIELDS = 2 ** 18;

/** An object has more fields than it may. */
export class TooManyFields extends Error {
  /** Where, from the value that was counted. */
  readonly path: string[] = [];
}

/**
 * What remains of `allowed` after the values inside `value`, itself and its text included; below 0: there are more.
 * @throws TooManyFields for an object of more than `maxFields`
 */
export function sizeLeft(value: unknown, allowed: number, maxFields = Number.POSITIVE_INFINITY): number {
  let rest = allowed - 1;
  if (typeof value === "string") return rest - Math.floor(value.length / CHARACTERS);
  if (typeof value !== "object" || value === null) return rest;
  const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
  if (Array.isArray(keys)) {
    if (keys.length > maxFields) throw new TooManyFields(`more than ${maxFields} fields in an object`);
    if (keys.length > rest) return rest - keys.length;
  }
  for (const key of keys) {
    if (rest < 0) break;
    try {
      rest = sizeLeft((value as Record<string | number, unknown>)[key], rest, maxFields);
    } catch (error) {
      if (error instanceof TooManyFields) error.path.unshift(String(key));
      throw error;
    }
  }
  return rest;
}
