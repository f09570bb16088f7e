// A constraint as text and back: what it is known by, and what a thread is given to read.

import { GrammarError } from "../grammar/grammarError.js";
import { SpelledNumber } from "../json.js";
import { stringifyAsync } from "../jsonPieces.js";
import type { Constraint } from "./constraint.js";

/** What JSON cannot say is said by objects of one field; objects with such a field are said by their entries. */
function encoded(value: unknown): unknown {
  if (typeof value === "bigint") return { bigint: String(value) };
  const isNoJson =
    typeof value === "function" || typeof value === "symbol" || (typeof value === "number" && !Number.isFinite(value));
  if (isNoJson) throw new TypeError("JSON would leave it out, or say null");
  if (value instanceof SpelledNumber) return { number: value.spelling };
  const isMistakable =
    typeof value === "object" && value !== null && ("bigint" in value || "number" in value || "entries" in value);
  return isMistakable && !Array.isArray(value) ? { entries: Object.entries(value) } : value;
}

function decoded(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  if ("bigint" in value) return BigInt(value.bigint as string);
  if ("number" in value) return new SpelledNumber(value.number as string);
  return "entries" in value ? Object.fromEntries(value.entries as [string, unknown][]) : value;
}

/** Where a text may have such objects. */
const FIELDS = /"(?:bigint|number|entries)":/;

/** Other work of the thread has its turn. Two constraints of one text are the same. @throws GrammarError where it is no JSON */
export async function constraintText(constraint: Constraint): Promise<string> {
  try {
    return await stringifyAsync(constraint, encoded);
  } catch {
    throw new GrammarError("must be plain JSON, not nested too deep");
  }
}

export function readConstraint(text: string): Constraint {
  return (FIELDS.test(text) ? JSON.parse(text, decoded) : JSON.parse(text)) as Constraint;
}
