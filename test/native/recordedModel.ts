// Models that test/reference has beside its cases, quantised most of them, and what PyTorch computes on them.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { type AdapterSpec, type DeviceModel, type NamedTensors, openRuntime } from "../../src/runtime/runtime.js";
import type { Weights } from "../../src/weights/weightFolder.js";
import { loadWeights, promptLogprobs, relativeError } from "./referenceModel.js";

/** What a folder of test/reference has recorded: expected.f32, and expected.json, which says where its tensors lie; an adapter's among them. */
export function recorded<Facts extends object>(folder: string) {
  const path = (file: string) => fileURLToPath(new URL(`../reference/${folder}/${file}`, import.meta.url));
  const facts = JSON.parse(readFileSync(path("expected.json"), "utf8")) as Facts & {
    tensors: Record<string, [offset: number, shape: number[]]>;
  };
  const numbers = readFileSync(path("expected.f32"));
  const tensor = (name: string): { shape: number[]; data: Float32Array } => {
    const [offset, shape] = facts.tensors[name]!;
    const length = shape.reduce((product, size) => product * size, 1);
    const data = Float32Array.from({ length }, (_, i) => numbers.readFloatLE(4 * (offset + i)));
    return { shape, data };
  };
  const adapter: NamedTensors = new Map(
    Object.keys(facts.tensors)
      .filter((name) => name.startsWith("base_model."))
      .map((name) => [name, tensor(name)]),
  );
  return { facts, path, tensor, adapter };
}

/** Log-probabilities of a prompt's tokens, which every kernel set computes with the same bits. */
export async function logprobsOfKernelSets(
  weights: Pick<Weights, "config" | "tensors">,
  model: DeviceModel,
  tokens: Int32Array,
): Promise<Float32Array> {
  const logprobs = await promptLogprobs(model, tokens);
  for (const kernelSet of openRuntime().kernelSets.filter((set) => set !== "portable")) {
    const other = await loadWeights(weights, kernelSet);
    expect([kernelSet, await promptLogprobs(other, tokens)]).toEqual([kernelSet, logprobs]);
    other.close();
  }
  return logprobs;
}

/** What a model with the adapter makes of a prompt, which training computes with the same bits, and the gradients of its mean cross-entropy. */
export async function adapted(
  model: DeviceModel,
  { spec, tensors }: { spec: AdapterSpec; tensors: NamedTensors },
  tokens: Int32Array,
): Promise<{ logprobs: Float32Array; gradients: NamedTensors }> {
  const logprobs = await promptLogprobs(model, tokens, await model.loadAdapter(spec, tensors));
  const trainer = await model.trainAdapter(spec, { seed: 1n, tensors });
  const pass = await trainer.forward([{ tokens }]);
  expect(pass.logprobs[0]!.subarray(0, -1)).toEqual(logprobs);
  await pass.backward([new Float32Array(tokens.length).fill(-1 / (tokens.length - 1), 0, -1)]);
  const gradients = await trainer.read("gradient");
  trainer.close();
  return { logprobs, gradients };
}

/** Those of `found` that are not within `limit` of what is wanted, by `relativeError`, with how far they are. */
export function farFrom(found: NamedTensors, wanted: (name: string) => Float32Array, limit: number): string[] {
  expect(found.size).toBeGreaterThan(0);
  return [...found].flatMap(([name, { data }]) => {
    const error = relativeError(data, wanted(name));
    return error < limit ? [] : [`${name}: ${error}`];
  });
}
