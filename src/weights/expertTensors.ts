// Tensors of layers with experts, by Hugging Face's names.

import type { ModelSpec, Strides } from "../runtime/runtime.js";

/** Which experts a token goes to, and how much of the one that all have, hangs on it, so that it is never quantised. */
export const isRouter = (name: string): boolean =>
  /\.(mlp\.(gate|shared_expert_gate)|feed_forward\.gate)\.weight$/.test(name);

const OF_EXPERT = /^(model\.layers\.(\d+)\.(?:mlp|feed_forward)\.experts)\.(\d+)\.(\w+)\.(weight|bias)$/;

/**
 * A matrix of one of the experts that a token is sent to, or its bias; `stacked` is what those of all experts of the layer are called
 * where they are one tensor. null: it is none.
 */
export function expertTensor(name: string): { layer: number; expert: number; stacked: string } | null {
  const [, experts, layer, expert, projection, kind] = OF_EXPERT.exec(name) ?? [];
  if (experts === undefined) return null;
  return { layer: Number(layer), expert: Number(expert), stacked: `${experts}.${projection}.${kind}` };
}

/** The tensor of all experts of a layer that a folder may have in the place of one for every matrix. */
export interface FusedExperts {
  name: string;
  shape: number[];
  /** The tensor is this one of `parts` of the same size, or lies in it as `strides` tell. */
  part: number;
  parts: number;
  strides?: Strides;
}

/** As transformers fuses them. null: `name` is of no expert, or what folders of its family have. */
export function fusedExperts(name: string, shape: readonly number[], { layers }: ModelSpec): FusedExperts | null {
  const [, experts, layer, expert, projection, kind] = OF_EXPERT.exec(name) ?? [];
  const [rows, columns] = shape;
  if (experts === undefined || rows === undefined) return null;
  const { count, bias } = layers[Number(layer)]!.experts!;
  const isDown = projection === "down_proj" || projection === "w2";
  const fused = `${experts}.${isDown ? "down_proj" : "gate_up_proj"}`;
  const beside = isDown ? 1 : 2;
  const second = Number(projection === "up_proj" || projection === "w3");
  if (!bias) {
    if (columns === undefined) return null;
    // [experts][rows of gate, then of up][hidden], or [experts][hidden][intermediate]
    const part = beside * Number(expert) + second;
    return { name: fused, shape: [count, beside * rows, columns], part, parts: beside * count };
  }
  // GPT-OSS's: [experts][columns][rows], rows of gate and up by turns, and their biases [experts][rows].
  const all = beside * rows;
  const strides = {
    first: second,
    row: columns === undefined ? 0 : beside,
    column: columns === undefined ? beside : all,
  };
  return {
    name: kind === "bias" ? `${fused}_bias` : fused,
    shape: columns === undefined ? [count, all] : [count, columns, all],
    part: Number(expert),
    parts: count,
    ...((beside > 1 || columns !== undefined) && { strides }),
  };
}

/** What folders of GPT-OSS, and of Granite, have in the place of others' names. */
const OWN_NAMES = {
  gptOss: [[/\.mlp\.gate\.(weight|bias)$/, ".mlp.router.$1"]],
  granite: [
    [/\.mlp\.gate\.weight$/, ".block_sparse_moe.router.layer.weight"],
    [/\.mlp\.experts\.gate_up_proj$/, ".block_sparse_moe.input_linear.weight"],
    [/\.mlp\.experts\.down_proj$/, ".block_sparse_moe.output_linear.weight"],
  ],
} as const;
export type ExpertNames = keyof typeof OWN_NAMES | null;

/** By which names a folder has a model's experts, all of a layer together; null: by those of most, together or one by one. */
export function expertNames({ layers }: ModelSpec, found: Iterable<string>): ExpertNames {
  if (layers.some(({ experts }) => experts?.bias)) return "gptOss";
  for (const name of found) if (name.includes(".block_sparse_moe.")) return "granite";
  return null;
}

export function storedName(name: string, names: ExpertNames): string {
  for (const [usual, own] of names ? OWN_NAMES[names] : []) if (usual.test(name)) return name.replace(usual, own);
  return name;
}
