// A base model with an adapter added into its weights, as a Hugging Face folder that needs no adapter any more.

import { type FileHandle, open } from "node:fs/promises";
import { ModelFileError } from "../errors.js";
import type { AdapterSpec, ElementType, NamedTensors, TensorLocation } from "../runtime/runtime.js";
import { type FloatType, narrow, widen } from "./floats.js";
import { openWeightFolder } from "./weightFolder.js";
import { BLOCK, BYTES, elements, type WriteOptions, writeWeightFolder } from "./writeWeightFolder.js";

export interface MergeOptions extends WriteOptions {
  /** Of all tensors. Default: as the base stores each. */
  dtype?: ElementType;
}

/**
 * Fills the existing folder `target` from the base model in `source`: W + scale * B A for every projection of the adapter,
 * summed in double precision and rounded once to the type it is stored in; everything else as it is.
 * @throws ModelFileError when a file of the base is damaged.
 */
export async function writeMergedFolder(
  target: string,
  source: string,
  adapter: { spec: AdapterSpec; tensors: NamedTensors },
  { dtype, ...options }: MergeOptions,
): Promise<void> {
  const { tensors } = await openWeightFolder(source);
  const stored = (tensor: TensorLocation): FloatType =>
    dtype === undefined ? tensor.dtype : dtype === "float32" ? "F32" : "BF16";
  const inputs = new Map<string, FileHandle>();
  try {
    const outputs = tensors.map((input) => ({ name: input.name, shape: input.shape, dtype: stored(input), input }));
    await writeWeightFolder(
      target,
      source,
      outputs,
      async function* ({ input, dtype }) {
        const handle = inputs.get(input.file) ?? (await open(input.file));
        inputs.set(input.file, handle);
        yield* mergedBlocks(handle, input, dtype, adapter);
      },
      options,
    );
  } finally {
    for (const input of inputs.values()) await input.close();
  }
}

async function* mergedBlocks(
  handle: FileHandle,
  tensor: TensorLocation,
  stored: FloatType,
  adapter: { spec: AdapterSpec; tensors: NamedTensors },
): AsyncGenerator<Uint8Array> {
  const delta = deltaOf(tensor, adapter);
  const total = elements(tensor.shape);
  for (let from = 0; from < total; from += BLOCK) {
    const raw = await readBlock(handle, tensor, from, Math.min(from + BLOCK, total));
    if (delta === null && stored === tensor.dtype) {
      yield raw;
      continue;
    }
    const values = Float64Array.from(widen(tensor.dtype, raw));
    delta?.(values, from);
    yield narrow(stored, values);
  }
}

async function readBlock(input: FileHandle, tensor: TensorLocation, from: number, to: number): Promise<Uint8Array> {
  const size = BYTES[tensor.dtype];
  const raw = new Uint8Array((to - from) * size);
  for (let done = 0; done < raw.length; ) {
    const { bytesRead } = await input.read(raw, done, raw.length - done, tensor.offset + from * size + done);
    if (bytesRead === 0) throw new ModelFileError(tensor.file, `ends inside ${tensor.name}`, { param: tensor.name });
    done += bytesRead;
  }
  return raw;
}

/** Adds the adapter's part to values of a row-major [out, in] weight, the first of which is at `from`; null: it has none. */
function deltaOf(
  { name, shape }: TensorLocation,
  { spec, tensors }: { spec: AdapterSpec; tensors: NamedTensors },
): ((values: Float64Array, from: number) => void) | null {
  const module = `base_model.model.${name.replace(/\.weight$/, "")}`;
  const a = tensors.get(`${module}.lora_A.weight`)?.data;
  const b = tensors.get(`${module}.lora_B.weight`)?.data;
  if (!a || !b) return null;
  const { rank, alpha, rslora } = spec;
  const scale = alpha / (rslora ? Math.sqrt(rank) : rank);
  const columns = shape[1]!;
  return (values, from) => {
    for (let at = 0; at < values.length; ) {
      const row = Math.floor((from + at) / columns);
      const column = (from + at) % columns;
      const length = Math.min(columns - column, values.length - at);
      for (let r = 0; r < rank; r++) {
        const factor = scale * b[row * rank + r]!;
        if (factor === 0) continue;
        const start = r * columns + column;
        for (let i = 0; i < length; i++) values[at + i]! += factor * a[start + i]!;
      }
      at += length;
    }
  };
}
