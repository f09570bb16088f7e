// What weights hash to: SHA-256, as hex, of the configuration and of every tensor's name, type, shape and bytes in order of
// name. It is the same however the tensors are spread over files, and stays the same when specs learn to say more.

import type { ModelSpec, TensorLocation } from "../runtime/runtime.js";
import { type Content, type ContentHash, contentHash } from "./contentHash.js";

export const weightsHash = (config: ModelSpec, tensors: readonly TensorLocation[]): ContentHash =>
  contentHash(contentOf(config, tensors));

/** Fields that specs learnt later, and what was the only way before. */
const LATER: Record<string, unknown> = {
  queryScale: 0,
  shortFactors: [],
  longFactors: [],
  fusedQkv: false,
  fusedGateUp: false,
  outputGate: false,
  embeddingRounds: false,
};

/** Without later fields that say what used to be the only way, so that a model keeps its hash when specs learn to say more. */
function said(value: unknown): string {
  return JSON.stringify(value, (key, field) =>
    Object.hasOwn(LATER, key) && JSON.stringify(field) === JSON.stringify(LATER[key]) ? undefined : field,
  );
}

/** What of a spec makes another model of the same weights; of a plain one what the first specs said. */
function identity(spec: ModelSpec): string {
  const { hidden, vocab, maxPositions, layers, rmsEps, tiedHead, ...whole } = spec;
  const { attention, feedForward, norms, residualScale } = layers[0]!;
  const isLater = layers.some(({ deltaRule, experts, names }) => deltaRule || experts || names);
  if (attention === null || feedForward === null || isLater) return said(spec);
  const { heads, kvHeads, headDim, qkNorm, qBias, kBias, vBias, oBias, rope, scale, window, softCap, fusedQkv } =
    attention;
  const { outputGate } = attention;
  const { intermediate, activation, bias: mlpBias, fusedGateUp } = feedForward;
  const { rotaryShare, shortFactors, longFactors, queryScale, ...turning } = rope;
  const later = { queryScale, shortFactors, longFactors, fusedQkv, fusedGateUp, outputGate };
  const further = { ...whole, norms, residualScale, scale, window, softCap, activation, rotaryShare, ...later };
  const first = said(layers[0]);
  const plain = said(further) === said(PLAIN) && layers.every((layer) => said(layer) === first);
  const sizes = { hidden, intermediate, layers: layers.length, heads, kvHeads, headDim, vocab, maxPositions };
  const common = { ...sizes, rmsEps, tiedHead, qkNorm, qBias, kBias, vBias, oBias, mlpBias, rope: turning };
  return said(common) + (plain ? "" : said(spec));
}

const PLAIN = {
  normAddsOne: false,
  embeddingScale: 1,
  logitScale: 1,
  logitSoftCap: 0,
  norms: "before",
  residualScale: 1,
  scale: 0,
  window: 0,
  softCap: 0,
  activation: "silu",
  rotaryShare: 1,
};

function* contentOf(config: ModelSpec, tensors: readonly TensorLocation[]): Generator<Content> {
  let text = identity(config);
  for (const tensor of tensors.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const { name, dtype, shape, packed, apart } = tensor;
    const parts = [tensor, ...[packed?.scales ?? apart?.scales, packed?.zeros].filter((part) => part !== undefined)];
    text += `\n${name} ${dtype} ${shape.join("x")}${packed ? ` ${packed.packing} ${packed.group}` : ""}\n`;
    for (const { file, offset, bytes } of parts) {
      yield { text, file, offset, bytes, name };
      text = "";
    }
  }
}
