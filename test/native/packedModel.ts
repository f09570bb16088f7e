// The reference folders of packed weights, and what transformers computes on them (see test/reference/packed/make.py).

import type { NamedTensors } from "../../src/runtime/runtime.js";
import { recorded } from "./recordedModel.js";

export const PACKED = ["compressed_tensors", "gptq", "gptq_v2", "awq"] as const;
export type PackedName = (typeof PACKED)[number];

const packed = recorded<{ tokens: number[]; rank: number; alpha: number }>("packed");

export const packedReference = packed.tensor;
export const packedFolder = (name: PackedName) => packed.path(name);
export const packedTokens = Int32Array.from(packed.facts.tokens);

export function packedAdapter(folder: PackedName) {
  const { rank, alpha, tensors: places } = packed.facts;
  const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
  const prefix = `${folder}.base_model.`;
  const tensors: NamedTensors = new Map(
    Object.keys(places)
      .filter((name) => name.startsWith(prefix))
      .map((name) => [name.slice(folder.length + 1), packedReference(name)]),
  );
  return { spec: { rank, alpha, rslora: false, targets }, tensors };
}
