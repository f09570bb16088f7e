// A base model with an adapter added into its weights, as a Hugging Face folder that needs no adapter any more.

import type { ElementType } from "../runtime/runtime.js";
import type { FloatType } from "./floats.js";
import { type Adapter, MergedTensors } from "./mergedTensors.js";
import type { FloatTensorLocation } from "./weightFolder.js";
import { type WriteOptions, writeWeightFolder } from "./writeWeightFolder.js";

export interface MergeOptions extends WriteOptions {
  /** Of all tensors. Default: as the base stores each. */
  dtype?: ElementType;
}

/**
 * Fills the existing folder `target` from the base model in `source`: W + scale * B A for every projection of the adapter,
 * rounded once to the type it is stored in; everything else as it is.
 * @throws ModelFileError when a file of the base is damaged.
 */
export async function writeMergedFolder(
  target: string,
  source: string,
  adapter: Adapter,
  { dtype, ...options }: MergeOptions,
): Promise<void> {
  const merged = await MergedTensors.open(source, adapter);
  const stored = (tensor: FloatTensorLocation): FloatType =>
    dtype === undefined ? tensor.dtype : dtype === "float32" ? "F32" : "BF16";
  const outputs = merged.stored.map((input) => ({
    name: input.name,
    shape: input.shape,
    dtype: stored(input),
    input,
  }));
  try {
    await writeWeightFolder(target, source, outputs, ({ input, dtype }) => merged.blocks(input, dtype), options);
  } finally {
    await merged.close();
  }
}
