// The reference folders of packed weights, and what transformers computes on them (see test/reference/packed/make.py).

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { NamedTensors } from "../../src/runtime/runtime.js";

export const PACKED = ["compressed_tensors", "gptq", "gptq_v2", "awq"] as const;
export type PackedName = (typeof PACKED)[number];

const path = (name: string) => fileURLToPath(new URL(`../reference/packed/${name}`, import.meta.url));
export const packedFolder = (name: PackedName) => path(name);

const facts = JSON.parse(readFileSync(path("expected.json"), "utf8")) as {
  tokens: number[];
  rank: number;
  alpha: number;
  tensors: Record<string, [offset: number, shape: number[]]>;
};
const numbers = readFileSync(path("expected.f32"));

export const packedTokens = Int32Array.from(facts.tokens);

export function packedReference(name: string): { shape: number[]; data: Float32Array } {
  const [offset, shape] = facts.tensors[name]!;
  const length = shape.reduce((product, size) => product * size, 1);
  return { shape, data: Float32Array.from({ length }, (_, i) => numbers.readFloatLE(4 * (offset + i))) };
}

export function packedAdapter(folder: PackedName) {
  const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
  const prefix = `${folder}.base_model.`;
  const tensors: NamedTensors = new Map(
    Object.keys(facts.tensors)
      .filter((name) => name.startsWith(prefix))
      .map((name) => [name.slice(folder.length + 1), packedReference(name)]),
  );
  return { spec: { rank: facts.rank, alpha: facts.alpha, rslora: false, targets }, tensors };
}
