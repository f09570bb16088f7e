// Rows and columns that stand in a GGUF file in another order than in a model's folder.

import type { ModelSpec, TiledHeads } from "../runtime/runtime.js";

/** Heads of a projection whose rows rotary embedding pairs; null: it is none. */
export function interleavedHeads(name: string, { layers }: ModelSpec): number | null {
  const [, layer, projection] = /^model\.layers\.(\d+)\.self_attn\.([qk])_proj\./.exec(name) ?? [];
  if (layer === undefined) return null;
  const { heads, kvHeads } = layers[Number(layer)]!.attention!;
  return projection === "q" ? heads : kvHeads;
}

/** How value heads of a delta rule stand in the file; null: as in the model. */
export function tiledHeads(name: string, { layers }: ModelSpec): TiledHeads | null {
  const [, layer, part] = /^model\.layers\.(\d+)\.linear_attn\.(\w+)/.exec(name) ?? [];
  if (layer === undefined || part === "norm") return null;
  const { keyHeads, valueHeads, keyDim, valueDim } = layers[Number(layer)]!.deltaRule!;
  // Then every key head has one, or there is but one key head.
  if (keyHeads === valueHeads || keyHeads === 1) return null;
  const isNumber = ["in_proj_b", "in_proj_a", "A_log", "dt_bias"].includes(part!);
  const hasKeys = part === "in_proj_qkv" || part === "conv1d";
  return {
    heads: valueHeads,
    groups: keyHeads,
    width: isNumber ? 1 : valueDim,
    first: hasKeys ? 2 * keyHeads * keyDim : 0,
    columns: part === "out_proj",
  };
}

/** What `order` makes of every `size` numbers, which are collected from blocks of any size. */
export async function* inOrder(
  blocks: AsyncIterable<Float64Array>,
  size: number,
  order: (numbers: Float64Array) => Float64Array,
): AsyncGenerator<Float64Array> {
  const numbers = new Float64Array(size);
  let filled = 0;
  for await (const block of blocks) {
    for (let at = 0; at < block.length; ) {
      const count = Math.min(size - filled, block.length - at);
      numbers.set(block.subarray(at, at + count), filled);
      filled += count;
      at += count;
      if (filled < size) continue;
      yield order(numbers);
      filled = 0;
    }
  }
}

/** Rows of whole heads of q or k as rotary pairs: those of a head in the order 0, d / 2, 1, d / 2 + 1, ... */
export function rowsInPairs(values: Float64Array, rowsOfHead: number, columns: number): Float64Array {
  const result = new Float64Array(values.length);
  const half = rowsOfHead / 2;
  for (let row = 0; row < values.length / columns; row++) {
    const inHead = row % rowsOfHead;
    const paired = row - inHead + 2 * (inHead % half) + Math.floor(inHead / half);
    result.set(values.subarray(row * columns, (row + 1) * columns), paired * columns);
  }
  return result;
}

/** Value heads as they stand in the file, of groups of as many: the first of each group, the second of each, and so on. */
export function headsInTiles(values: Float64Array, columns: number, tiled: TiledHeads): Float64Array {
  const { heads, groups, width, first } = tiled;
  const result = values.slice();
  // Of rows, all at once; of columns, row by row.
  const [span, size] = tiled.columns ? [columns, width] : [values.length, width * columns];
  for (let at = first * columns; at < values.length; at += span) {
    for (let head = 0; head < heads; head++) {
      const from = at + ((head % groups) * (heads / groups) + Math.floor(head / groups)) * size;
      result.set(values.subarray(from, from + size), at + head * size);
    }
  }
  return result;
}
