// The reference models: tiny random ones with what PyTorch, transformers and peft compute on them (see test/reference/models/README.md).

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type DeviceModel, type ElementType, type ModelSpec, openRuntime } from "../../src/runtime/runtime.js";
import { readAdapterFolder } from "../../src/weights/adapterFolder.js";
import { openWeightFolder, type Weights } from "../../src/weights/weightFolder.js";
import { DEVICE } from "./device.js";

export { plainSlot } from "./plainSlot.js";

export const CASES = [
  "llama",
  "llama3_rope",
  "llama_linear",
  "mistral",
  "qwen2",
  "qwen3",
  "qwen3_yarn",
  "smollm3",
  "smollm3_odd",
  "smollm3_yarn",
  "granite",
  "granite_llama3",
  "granite_odd",
  "mistral_window",
  "ministral_odd",
  "qwen2_window",
  "qwen3_window",
  "phi3",
  "phi3_odd",
  "phi3_plain",
  "gemma3",
  "gemma3_odd",
  "gemma2",
  "gemma2_odd",
  "ministral3",
  "ministral3_odd",
  "ministral3_window",
  "gemma2_long",
  "gemma3_long",
  "llama_dynamic",
  "qwen2_odd",
  "ministral",
  "qwen3_5",
  "qwen3_5_odd",
  "qwen3_5_tower",
  "qwen3_moe",
  "qwen3_moe_odd",
  "qwen3_5_moe",
  "qwen3_5_moe_tower",
  "gpt_oss",
  "gpt_oss_odd",
  "lfm2",
  "lfm2_odd",
  "lfm2_moe",
  "lfm2_moe_odd",
  "granite_moe",
  "gemma4",
  "gemma4_odd",
  "gemma4_tower",
] as const;
export type Case = (typeof CASES)[number];

/** Those with layers that have a recurrent state. */
export const isRecurrent = (name: Case) => name.startsWith("qwen3_5") || convolves(name);

/** Those with layers that have a gated short convolution, which the processor alone computes. */
export const convolves = (name: Case) => name.startsWith("lfm2");

/** Those with layers that choose among experts, which the processor alone computes, and whose weights are not trained. */
export const hasExperts = (name: Case) => name.includes("_moe") || name.startsWith("gpt_oss");

/** Those whose values have a norm, which the processor alone computes. */
export const sharesKeys = (name: Case) => name.startsWith("gemma4");

/** Those whose own weights are not trained. */
export const trainsAdaptersAlone = (name: Case) => hasExperts(name) || name === "gemma4" || name === "gemma4_tower";

export function caseFolder(name: Case): string {
  return fileURLToPath(new URL(`../reference/models/${name}`, import.meta.url));
}

export async function loadCase(
  name: Case,
  {
    device = DEVICE,
    kvCache = "exact",
    gpuLayers,
    maxPositions,
    ...options
  }: {
    device?: string;
    gpuLayers?: number;
    dtype?: ElementType;
    kernelSet?: string;
    kvPages?: number;
    kvCache?: ModelSpec["kvCache"];
    recurrentStates?: number;
    gateText?: Int32Array;
    maxPositions?: number;
  } = {},
): Promise<DeviceModel> {
  const { config: spec, tensors } = await openWeightFolder(caseFolder(name));
  const config = { ...spec, kvCache, ...(maxPositions && { maxPositions }) };
  return openRuntime({ device, gpuLayers }).load({
    config,
    tensors,
    dtype: "float32",
    kvPages: 64,
    recurrentStates: 64,
    ...options,
  });
}

/** Weights of a folder or file that is no case, computed in float32. */
export function loadWeights(
  { config, tensors }: Pick<Weights, "config" | "tensors">,
  kernelSet?: string,
): Promise<DeviceModel> {
  const options = { dtype: "float32", kvPages: 64, recurrentStates: 4, ...(kernelSet && { kernelSet }) } as const;
  return openRuntime().load({ config, tensors, ...options });
}

export function caseAdapter(name: Case) {
  return readAdapterFolder(join(caseFolder(name), "adapter"));
}

/** Log-probabilities of the tokens of a prompt, from the second on. */
export async function promptLogprobs(device: DeviceModel, tokens: Int32Array, adapter = 0): Promise<Float32Array> {
  const next = Int32Array.of(...tokens.subarray(1), -1);
  const blocks = pagesFrom(0, tokens.length, device);
  const sequence = { slot: -1, tokens, position: 0, recurrent: 0, blocks, adapter, sample: false, outputIndex: 0 };
  const { prompt } = await device.step([{ ...sequence, promptLogprobs: 0, next }]);
  return Float32Array.from(prompt[0]!.slice(0, -1), ({ logprob }) => logprob);
}

/** expected.safetensors and expected.json of a case. */
export function expected(name: Case) {
  const file = readFileSync(join(caseFolder(name), "expected.safetensors"));
  const length = Number(file.readBigUInt64LE());
  const header = JSON.parse(file.subarray(8, 8 + length).toString()) as Record<
    string,
    { dtype: string; data_offsets: [number, number] }
  >;
  const bytes = (tensor: string): ArrayBuffer => {
    const [from, to] = header[tensor]!.data_offsets;
    return new Uint8Array(file.subarray(8 + length + from, 8 + length + to)).buffer;
  };
  return {
    rows: [0, 1, 2].map((row) => new Int32Array(bytes(`row${row}.tokens`))),
    floats: (tensor: string) => new Float32Array(bytes(tensor)),
    names: (prefix: string) =>
      Object.keys(header)
        .filter((tensor) => tensor.startsWith(prefix))
        .map((tensor) => tensor.slice(prefix.length)),
    facts: JSON.parse(readFileSync(join(caseFolder(name), "expected.json"), "utf8")) as {
      loss: number;
      greedy: number[][];
      bfloat16: { logprobs_rms_error: number };
      adamw: { lr: number; loss: number[]; grad_norm: number[]; loss_after: number };
    },
  };
}

/** Pages `first`, `first + 1`, ... of every group of layers, for so many positions. */
export function pagesFrom(
  first: number,
  positions: number,
  { pageGroups }: Pick<DeviceModel, "pageGroups">,
): Int32Array {
  const groups = pageGroups.length;
  return Int32Array.from({ length: Math.ceil(positions / 64) * groups }, (_, at) => first * groups + at);
}

/** Norm of the difference over the norm of what is expected. */
export function relativeError(actual: Float32Array, wanted: Float32Array): number {
  let difference = 0;
  let norm = 0;
  for (let i = 0; i < wanted.length; i++) {
    difference += (actual[i]! - wanted[i]!) ** 2;
    norm += wanted[i]! ** 2;
  }
  return actual.length === wanted.length ? Math.sqrt(difference / norm) : Number.NaN;
}
