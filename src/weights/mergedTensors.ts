// The tensors of a base model with an adapter added into them, read piece by piece.

import { type FileHandle, open } from "node:fs/promises";
import { elementCount } from "../elementCount.js";
import { ModelFileError } from "../errors.js";
import { inPieces } from "../eventLoop.js";
import { readAt } from "../regularFile.js";
import type { AdapterSpec, ModelSpec, NamedTensors } from "../runtime/runtime.js";
import { type FloatType, narrow, widen } from "./floats.js";
import { type FloatTensorLocation, openWeightFolder } from "./weightFolder.js";
import { BLOCK, BYTES } from "./writeWeightFolder.js";

/** Values that are computed before the event loop may turn: a millisecond with a large adapter. */
export const MAX_TURN_VALUES = 8192;

export interface Adapter {
  spec: AdapterSpec;
  tensors: NamedTensors;
}

/** W + scale * B A for every projection of the adapter, summed in double precision; everything else as it is stored. */
export class MergedTensors {
  private readonly inputs = new Map<string, FileHandle>();

  private constructor(
    readonly config: ModelSpec,
    readonly tensors: readonly FloatTensorLocation[],
    /** The same as they lie in the base's folder. */
    readonly stored: readonly FloatTensorLocation[],
    private readonly adapter: Adapter,
  ) {}

  /** @throws ModelFileError when the base model in `folder` cannot be used. */
  static async open(folder: string, adapter: Adapter): Promise<MergedTensors> {
    const { config, tensors, stored } = await openWeightFolder(folder);
    return new MergedTensors(config, tensors, stored, adapter);
  }

  /** Bytes of a tensor in row-major order, rounded once to `stored`. @throws ModelFileError when its file is damaged. */
  async *blocks(tensor: FloatTensorLocation, stored: FloatType): AsyncGenerator<Uint8Array> {
    const delta = deltaOf(tensor, this.adapter);
    for await (const { raw, from } of this.blocksOf(tensor)) {
      if (delta === null && stored === tensor.dtype) {
        yield raw;
        continue;
      }
      const narrowed = new Uint8Array((raw.length / BYTES[tensor.dtype]) * BYTES[stored]);
      await this.inPieces(tensor, raw, (piece, at) => {
        delta?.(piece, from + at);
        narrowed.set(narrow(stored, piece), at * BYTES[stored]);
      });
      yield narrowed;
    }
  }

  /** Values of a tensor in row-major order, BLOCK at a time. @throws ModelFileError when its file is damaged. */
  async *values(tensor: FloatTensorLocation): AsyncGenerator<Float64Array> {
    const delta = deltaOf(tensor, this.adapter);
    for await (const { raw, from } of this.blocksOf(tensor)) {
      const values = new Float64Array(raw.length / BYTES[tensor.dtype]);
      await this.inPieces(tensor, raw, (piece, at) => {
        delta?.(piece, from + at);
        values.set(piece, at);
      });
      yield values;
    }
  }

  async close(): Promise<void> {
    for (const input of this.inputs.values()) await input.close();
  }

  /** Some values of a block at a time, the first of which is number `at` of the block. */
  private inPieces(
    { dtype }: FloatTensorLocation,
    raw: Uint8Array,
    work: (piece: Float64Array, at: number) => void,
  ): Promise<void> {
    const size = BYTES[dtype];
    return inPieces(raw.length / size, MAX_TURN_VALUES, (at, to) =>
      work(new Float64Array(widen(dtype, raw.subarray(at * size, to * size))), at),
    );
  }

  private async *blocksOf(tensor: FloatTensorLocation): AsyncGenerator<{ raw: Uint8Array; from: number }> {
    const input = this.inputs.get(tensor.file) ?? (await open(tensor.file));
    this.inputs.set(tensor.file, input);
    const total = elementCount(tensor.shape);
    for (let from = 0; from < total; from += BLOCK) {
      yield { raw: await readBlock(input, tensor, from, Math.min(from + BLOCK, total)), from };
    }
  }
}

async function readBlock(
  input: FileHandle,
  tensor: FloatTensorLocation,
  from: number,
  to: number,
): Promise<Uint8Array> {
  const size = BYTES[tensor.dtype];
  const raw = new Uint8Array((to - from) * size);
  if (!(await readAt(input, raw, tensor.offset + from * size))) {
    throw new ModelFileError(tensor.file, `ends inside ${tensor.name}`, { param: tensor.name });
  }
  return raw;
}

/** Adds the adapter's part to values of a row-major [out, in] weight, the first of which is at `from`; null: it has none. */
function deltaOf(
  { name, shape }: FloatTensorLocation,
  { spec, tensors }: Adapter,
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
