// How much a plain value holds, counted no further than necessary.

/** Characters that are as much work as one value. */
const CHARACTERS = 64;

/** What remains of `allowed` after the values inside `value`, itself and its text included; below 0: there are more. */
export function sizeLeft(value: unknown, allowed: number): number {
  let rest = allowed - 1;
  if (typeof value === "string") return rest - Math.floor(value.length / CHARACTERS);
  if (typeof value !== "object" || value === null) return rest;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && rest >= 0; i++) rest = sizeLeft(value[i], rest);
    return rest;
  }
  for (const key in value) {
    if (rest < 0) break;
    rest = sizeLeft((value as Record<string, unknown>)[key], rest);
  }
  return rest;
}
