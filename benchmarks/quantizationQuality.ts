/** How far a quantised model is from itself in bfloat16, and how far it may be. */
import { drawConversation } from "../models/recipe/conversation.js";
import { Draw } from "../models/recipe/draw.js";
import { render } from "../models/recipe/rendering.js";
import { Encoder, readVocabulary } from "../models/recipe/vocabulary.js";
import type { ModelOptions } from "../src/index.js";
import { type DeviceModel, openRuntime } from "../src/runtime/runtime.js";
import { openWeightFiles } from "../src/weights/index.js";
import { pagesFor, plainRow, spreadTokens } from "./decodeBatch.js";

type Change = Pick<ModelOptions, "quantize" | "kvCache">;

export const CHANGES = {
  int16: { quantize: "int16" },
  q8: { quantize: "q8" },
  q4: { quantize: "q4" },
  "int8 cache": { kvCache: "int8" },
} as const satisfies Record<string, Change>;
export type Variant = keyof typeof CHANGES;

interface Gate {
  /** Mean divergence in nats, at most. */
  kl: number;
  /** Share of tokens whose likeliest successor stays, at least. */
  agreement: number;
  /** Points of accuracy that are lost, at most. */
  accuracy: number;
}
const EIGHT_BITS: Gate = { kl: 0.005, agreement: 0.99, accuracy: 1 };
export const GATES: Record<Variant, Gate> = {
  int16: { kl: 2e-5, agreement: 0.995, accuracy: 0.5 },
  q8: EIGHT_BITS,
  q4: { kl: 0.03, agreement: 0.95, accuracy: 3 },
  "int8 cache": EIGHT_BITS,
};

const MAX_TOKENS = 512;

/** Tokens, and after which of them distributions are compared. */
export interface Text {
  tokens: Int32Array;
  isCompared: boolean[];
}

/** What assistants say in held-out conversations of the embedded model's world. */
export function heldOutConversations(folder: string, count: number): Text[] {
  const encoder = new Encoder(readVocabulary(folder));
  const draw = new Draw(41_001, true);
  return Array.from({ length: count }, () => {
    const tokens: number[] = [];
    const isSaid: boolean[] = [];
    for (const { text, assistant } of render(drawConversation(draw))) {
      for (const id of encoder.encode(text)) {
        tokens.push(id);
        isSaid.push(assistant);
      }
    }
    return { tokens: Int32Array.from(tokens.slice(0, MAX_TOKENS)), isCompared: isSaid.slice(1) };
  });
}

/** Texts of tokens from all over the vocabulary. */
export const spreadTexts = (count: number, length: number, vocab: number): Text[] =>
  Array.from({ length: count }, (_, i) => ({
    tokens: spreadTokens(length, vocab, i),
    isCompared: Array<boolean>(length).fill(true),
  }));

/** Log-probabilities of all tokens after each token. */
async function distributions(model: DeviceModel, tokens: Int32Array): Promise<Float32Array[]> {
  const blocks = Int32Array.from({ length: pagesFor(1, tokens.length, 0) }, (_, i) => i);
  const next = Int32Array.of(...tokens.subarray(1), -1);
  const row = { ...plainRow, slot: -1, sample: false, tokens, position: 0, blocks, next };
  const { prompt } = await model.step([{ ...row, promptLogprobs: model.config.vocab }]);
  return prompt[0]!.map(({ topIds, topLogprobs }) => {
    const all = new Float32Array(model.config.vocab);
    for (const [i, id] of topIds.entries()) all[id] = topLogprobs[i]!;
    return all;
  });
}

/** `gateText` as the engine gives one: what 8 bits do not hold is multiplied with activations as they are. */
async function load(
  folder: string,
  gateText: Int32Array,
  { quantize, kvCache = "exact" }: Change = {},
): Promise<DeviceModel> {
  const { config: spec, tensors } = await openWeightFiles(folder, quantize);
  const config = { ...spec, kvCache };
  const options = { config, tensors, dtype: "bfloat16" as const, kvPages: pagesFor(1, MAX_TOKENS, 64) };
  return openRuntime().load({ ...options, ...(quantize && { gateText }) });
}

/** The two likeliest tokens, and the margin between their logits. */
function likeliest(logprobs: Float32Array): { id: number; margin: number } {
  let [id, next] = logprobs[0]! >= logprobs[1]! ? [0, 1] : [1, 0];
  for (let i = 2; i < logprobs.length; i++) {
    if (logprobs[i]! > logprobs[id]!) [next, id] = [id, i];
    else if (logprobs[i]! > logprobs[next]!) next = i;
  }
  return { id, margin: logprobs[id]! - logprobs[next]! };
}

/** Below it, in nats, which of two tokens is the likeliest is nearly an even chance. */
export const CLOSE = 0.1;

export interface Divergence {
  /** Mean, in nats. */
  kl: number;
  /** Share of tokens with the same likeliest successor. */
  agreement: number;
  /** Standard error of that share. */
  error: number;
  /** Mean, in nats, of the model in bfloat16. */
  entropy: number;
  /** Share of tokens after which its two likeliest are closer than CLOSE. */
  close: number;
}

/** Of the model with each of the changes. */
export async function divergences(folder: string, texts: readonly Text[]): Promise<Record<Variant, Divergence>> {
  const gateText = texts[0]!.tokens;
  const whole = await load(folder, gateText);
  const entries: [string, Divergence][] = [];
  for (const [variant, change] of Object.entries(CHANGES)) {
    const changed = await load(folder, gateText, change);
    entries.push([variant, await divergence(whole, changed, texts)]);
    changed.close();
  }
  whole.close();
  return Object.fromEntries(entries) as Record<Variant, Divergence>;
}

async function divergence(whole: DeviceModel, changed: DeviceModel, texts: readonly Text[]): Promise<Divergence> {
  let [kl, same, entropy, close, count] = [0, 0, 0, 0, 0];
  for (const { tokens, isCompared } of texts) {
    const [wanted, got] = [await distributions(whole, tokens), await distributions(changed, tokens)];
    for (let t = 0; t + 1 < tokens.length; t++) {
      if (!isCompared[t]) continue;
      const [p, q] = [wanted[t]!, got[t]!];
      for (const [id, logprob] of p.entries()) {
        kl += Math.exp(logprob) * (logprob - q[id]!);
        entropy -= Math.exp(logprob) * logprob;
      }
      const { id, margin } = likeliest(p);
      same += Number(id === likeliest(q).id);
      close += Number(margin < CLOSE);
      count++;
    }
  }
  const agreement = same / count;
  const error = Math.sqrt((agreement * (1 - agreement)) / count);
  return { kl: kl / count, agreement, error, entropy: entropy / count, close: close / count };
}

/** What of a measurement is beyond its gate; empty: nothing. */
export function missed(variant: Variant, { kl, agreement }: Pick<Divergence, "kl" | "agreement">): string[] {
  const gate = GATES[variant];
  return [
    ...(kl <= gate.kl ? [] : [`mean KL ${kl.toFixed(5)} above ${gate.kl}`]),
    ...(agreement >= gate.agreement ? [] : [`agreement ${agreement.toFixed(4)} below ${gate.agreement}`]),
  ];
}
