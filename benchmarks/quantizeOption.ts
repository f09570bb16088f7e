import { QUANTIZATIONS } from "../src/modelChoices.js";
import type { Quantization } from "../src/types/options.js";

/** What `--quantize` says. @throws RangeError for what is no way to quantise. */
export function quantizationOf(option: string | undefined): Quantization | undefined {
  if (option === undefined) return undefined;
  const found = QUANTIZATIONS.find((name) => name === option);
  if (!found) throw new RangeError(`--quantize ${option}: is none of ${QUANTIZATIONS}`);
  return found;
}
