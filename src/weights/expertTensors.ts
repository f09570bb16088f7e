// Tensors of layers with experts, by Hugging Face's names.

import type { ModelSpec } from "../runtime/runtime.js";

/** Which experts a token goes to, and how much of the one that all have, hangs on it, so that it is never quantised. */
export const isRouter = (name: string): boolean => /\.mlp\.(gate|shared_expert_gate)\.weight$/.test(name);

const MATRIX = /^(model\.layers\.(\d+)\.mlp\.experts)\.(\d+)\.(\w+)\.weight$/;

/**
 * A matrix of one of the experts that a token is sent to; `stacked` is what those of all experts of the layer are called where they are
 * one tensor. null: it is none.
 */
export function expertMatrix(name: string): { layer: number; expert: number; stacked: string } | null {
  const [, experts, layer, expert, projection] = MATRIX.exec(name) ?? [];
  if (experts === undefined) return null;
  return { layer: Number(layer), expert: Number(expert), stacked: `${experts}.${projection}.weight` };
}

/** The tensor of all experts of a layer that a folder may have in the place of one for every matrix. */
export interface FusedExperts {
  name: string;
  /** [experts][rows of gate, then of up][hidden], or [experts][hidden][intermediate]. */
  shape: number[];
  /** The matrix is this one of `parts` of the same size. */
  part: number;
  parts: number;
}

/** As transformers fuses them. null: `name` is no matrix of an expert. */
export function fusedExperts(name: string, shape: readonly number[], { layers }: ModelSpec): FusedExperts | null {
  const [, experts, layer, expert, projection] = MATRIX.exec(name) ?? [];
  const [rows, columns] = shape;
  if (experts === undefined || rows === undefined || columns === undefined) return null;
  const { count } = layers[Number(layer)]!.experts!;
  const beside = projection === "down_proj" ? 1 : 2;
  return {
    name: `${experts}.${beside === 1 ? "down_proj" : "gate_up_proj"}`,
    shape: [count, beside * rows, columns],
    part: beside * Number(expert) + Number(projection === "up_proj"),
    parts: beside * count,
  };
}
