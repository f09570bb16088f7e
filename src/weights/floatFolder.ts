// Weights that training has made, as a Hugging Face folder.

import type { ElementType } from "../runtime/runtime.js";
import { narrow } from "./floats.js";
import { openWeightFolder } from "./weightFolder.js";
import { BLOCK, type OutputTensor, type WriteOptions, writeWeightFolder } from "./writeWeightFolder.js";

/**
 * Fills the existing folder `target` with the tensors of the model in `source`, whose values `valuesOf` is asked for one after the
 * other. Matrices are stored in the type they are computed in, `dtype`; norms and biases are computed in float32 and stay so:
 * whoever loads the folder computes with the same bits.
 */
export async function writeFloatFolder(
  target: string,
  source: string,
  valuesOf: (name: string) => Promise<Float32Array>,
  dtype: ElementType,
  options: WriteOptions,
): Promise<void> {
  const { tensors } = await openWeightFolder(source);
  const outputs = tensors.map(({ name, shape }): OutputTensor => {
    const isMatrix = shape.length > 1;
    return { name, shape, dtype: isMatrix && dtype === "bfloat16" ? "BF16" : "F32" };
  });
  await writeWeightFolder(
    target,
    source,
    outputs,
    async function* ({ name, dtype }) {
      const data = await valuesOf(name);
      for (let from = 0; from < data.length; from += BLOCK) {
        yield narrow(dtype, new Float64Array(data.subarray(from, from + BLOCK)));
      }
    },
    options,
  );
}
