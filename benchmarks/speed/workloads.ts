/** What is measured, the same for every program: shapes of models, prompts, tokens; and how fast the machine could be. */
import type { MachineRate } from "../machineProbe.js";
import { distinctExperts, expertsOf, headDimOf, type Shape, type ShapeExperts } from "../modelShapes.js";

/** `count` sequences decode `tokens` tokens each after `context` of them; `shared`: the context is one for all. */
export interface DecodeWork {
  kind: "decode";
  count: number;
  context: number;
  tokens: number;
  shared: boolean;
}

/** One prompt of `context` tokens. */
export interface PrefillWork {
  kind: "prefill";
  context: number;
}

/** Forward, backward and AdamW over `count` rows of `context` tokens: LoRA of rank `rank` on all seven projections. */
export interface LoraWork {
  kind: "lora";
  count: number;
  context: number;
  rank: number;
}

/**
 * `groups` prompts of `context` tokens, `count` rollouts of `tokens` tokens of each, drawn at temperature 1, then forward, backward and
 * AdamW over all of them: LoRA of rank `rank` on all seven projections.
 */
export interface RlWork {
  kind: "rl";
  groups: number;
  count: number;
  context: number;
  tokens: number;
  rank: number;
}

export type Work = DecodeWork | PrefillWork | LoraWork | RlWork;

const decode = (count: number, context: number, shared = false): DecodeWork => ({
  kind: "decode",
  count,
  context,
  tokens: Math.max(32, Math.round(128 / count)),
  shared,
});

const forProcessors: Record<string, Work> = {
  "decode-1": decode(1, 512),
  "decode-8": decode(8, 512),
  "decode-16": decode(16, 512),
  "decode-64": decode(64, 256),
  "rollout-16": decode(16, 512, true),
  "rollout-16-long": decode(16, 2048, true),
  "prefill-512": { kind: "prefill", context: 512 },
  "prefill-4096": { kind: "prefill", context: 4096 },
  "lora-4x256": { kind: "lora", count: 4, context: 256, rank: 16 },
  "lora-1x4096": { kind: "lora", count: 1, context: 4096, rank: 16 },
};

const forGpus: Record<string, Work> = {
  "decode-1": decode(1, 512),
  "decode-16": decode(16, 512),
  "decode-64": decode(64, 256),
  "decode-256": decode(256, 256),
  "prefill-512": { kind: "prefill", context: 512 },
  "prefill-4096": { kind: "prefill", context: 4096 },
  "lora-4x256": { kind: "lora", count: 4, context: 256, rank: 16 },
  "lora-4x2048": { kind: "lora", count: 4, context: 2048, rank: 16 },
  "rl-64x8x512": { kind: "rl", groups: 64, count: 8, context: 128, tokens: 512, rank: 16 },
};

/** By name. `cap`: no context, reply or number of prompts is above it, for devices in software. */
export function workloadsOf(device: string, cap = Number.POSITIVE_INFINITY): Record<string, Work> {
  const capped = (work: Work): Work => ({
    ...work,
    context: Math.min(work.context, cap),
    ...("tokens" in work && { tokens: Math.min(work.tokens, cap) }),
    ...("groups" in work && { groups: Math.min(work.groups, cap) }),
  });
  const all = Object.entries(device === "cpu" ? forProcessors : forGpus);
  return Object.fromEntries(all.map(([name, work]) => [name, capped(work)]));
}

/**
 * Of other numbers than those: decode-COUNTxCONTEXT, rollout-COUNTxCONTEXT, prefill-CONTEXT, lora-COUNTxCONTEXT or
 * rl-GROUPSxCOUNTxTOKENS; null: none of these.
 */
export function workNamed(name: string): Work | null {
  const prefill = /^prefill-([1-9][0-9]*)$/.exec(name);
  if (prefill) return { kind: "prefill", context: Number(prefill[1]) };
  const groups = /^rl-([1-9][0-9]*)x([1-9][0-9]*)x([1-9][0-9]*)$/.exec(name);
  if (groups) {
    const [prompts, count, tokens] = groups.slice(1).map(Number) as [number, number, number];
    return { kind: "rl", groups: prompts, count, context: 128, tokens, rank: 16 };
  }
  const rows = /^(decode|rollout|lora)-([1-9][0-9]*)x([1-9][0-9]*)$/.exec(name);
  if (!rows) return null;
  const [count, context] = [Number(rows[2]), Number(rows[3])];
  if (rows[1] === "lora") return { kind: "lora", count, context, rank: 16 };
  return decode(count, context, rows[1] === "rollout");
}

export function described(work: Work): string {
  const { kind, context } = work;
  if (kind === "rl") return `RL step, ${work.groups} x ${work.count} rollouts of ${work.tokens} after ${context}`;
  if (kind === "prefill") return `prefill ${context}`;
  if (kind === "lora") return `LoRA step, ${work.count} x ${context}`;
  if (work.shared) return `decode, ${work.count} completions of one prompt of ${context}`;
  return `decode, ${work.count} x ${context}`;
}

/** Tokens that one run of it computes. */
export function tokensOf(work: Work): number {
  switch (work.kind) {
    case "decode":
      return work.count * work.tokens;
    case "lora":
      return work.count * work.context;
    case "rl":
      return work.groups * work.count * work.tokens;
    default:
      return work.context;
  }
}

/** Bytes of memory read, and operations done, by what runs at one time. */
interface Phase {
  bytes: number;
  operations: number;
}

const BYTES = 2; // of a bfloat16

/**
 * Seconds that a run takes at least, on a machine of this rate, with weights and cache in bfloat16: phases follow each other, and
 * each takes the longer of reading its bytes once and doing its operations.
 */
export function boundOf(shape: Shape, work: Work, rate: MachineRate): number {
  if (work.kind === "rl") return rlBound(shape, work, rate);
  const seconds = secondsOf(phasesOf(shape, work), rate);
  return work.kind === "decode" ? seconds * work.tokens : seconds;
}

function secondsOf(phases: Phase[], { bandwidth, operations }: MachineRate): number {
  return phases.reduce(
    (seconds, phase) => seconds + Math.max(phase.bytes / bandwidth, phase.operations / operations) / 1e9,
    0,
  );
}

/** Prompts, all rollouts at once, and training on each prompt once and on the rollouts. */
function rlBound(shape: Shape, { groups, count, context, tokens, rank }: RlWork, rate: MachineRate): number {
  const prompts = secondsOf(phasesOf(shape, { kind: "prefill", context }, groups), rate);
  const rollouts = boundOf(shape, { kind: "decode", count: groups * count, context, tokens, shared: false }, rate);
  const rows = { kind: "lora", count: groups * count, context: tokens, rank } as const;
  const trained = boundOf(shape, rows, rate) + boundOf(shape, { ...rows, count: groups, context }, rate);
  return prompts + rollouts + trained;
}

/** Of the cache, read by a step of decoding in its middle: keys and values in bfloat16. */
export function cacheBytes(c: Shape, { count, context, tokens, shared }: DecodeWork): number {
  const headDim = headDimOf(c);
  const positions = shared ? context + (count * tokens) / 2 : count * (context + tokens / 2);
  return c.num_hidden_layers * BYTES * 2 * c.num_key_value_heads * headDim * positions;
}

/**
 * Of one step of decoding, or of the whole run; `prompts`: of a prefill, at one time. What is left out costs little: exponentials,
 * of attention forward and backward and of the vocabulary, at 20 operations each, are 0.6 % of a LoRA step of 4 x 256 at SmolLM2-135M's shape, and widening each weight to float32 once a
 * pass, where nothing multiplies pairs of bfloat16, is below 0.1 %.
 */
function phasesOf(c: Shape, work: Exclude<Work, RlWork>, prompts = 1): Phase[] {
  const headDim = headDimOf(c);
  const queries = c.num_attention_heads * headDim;
  const keys = c.num_key_value_heads * headDim;
  const rows =
    work.kind === "decode" ? work.count : work.kind === "lora" ? work.count * work.context : prompts * work.context;
  // Forward and the gradient of the activations: twice the forward pass. That of the embeddings, which stay as they are, is not made.
  const passes = (frozenInputs: boolean) => (work.kind === "lora" && !frozenInputs ? 2 : 1);
  const product = (inputs: number, outputs: number, times = rows, frozenInputs = false): Phase => ({
    bytes: passes(frozenInputs) * BYTES * inputs * outputs,
    operations: passes(frozenInputs) * 2 * times * inputs * outputs,
  });
  /** A and B forward; backward the gradients of the activations by B and by A, and those of A and of B. */
  const lowRank = (inputs: number, outputs: number, frozenInputs: boolean): Phase => ({
    bytes: 0,
    operations:
      work.kind === "lora" ? 2 * rows * work.rank * (3 * (inputs + outputs) - (frozenInputs ? inputs : 0)) : 0,
  });
  const projections = (group: [k: number, n: number, rows: number][], frozenInputs = false): Phase =>
    sum(group.map(([k, n, times]) => sum([product(k, n, times, frozenInputs), lowRank(k, n, frozenInputs)])));
  const layer = (index: number): Phase[] => {
    // Of the last layer a prompt needs all keys and values, and of the rest what its last token comes to.
    const isRead = work.kind !== "prefill" || index < c.num_hidden_layers - 1;
    const read = isRead ? rows : prompts;
    const inputs: [number, number, number][] = [
      [c.hidden_size, queries, read],
      [c.hidden_size, keys, rows],
      [c.hidden_size, keys, rows],
    ];
    const wider: [number, number, number] = [c.hidden_size, c.intermediate_size, read];
    const chosen = expertsOf(c);
    const feedForward = chosen
      ? experts(chosen, read)
      : [projections([wider, wider]), projections([[c.intermediate_size, c.hidden_size, read]])];
    return [
      projections(inputs, index === 0),
      projections([[queries, c.hidden_size, read]]),
      ...feedForward,
      attention(isRead),
    ];
  };
  return [...Array.from({ length: c.num_hidden_layers }, (_, index) => layer(index)).flat(), head()];

  /** Of rows whose experts are drawn by chance: weights are read of those that any row has. Experts are not adapted. */
  function experts(e: ShapeExperts, rows: number): Phase[] {
    const { num_experts: count, num_experts_per_tok: each } = e;
    const distinct = distinctExperts(e, rows);
    const matrices = (group: number): Phase => {
      const one = group * e.moe_intermediate_size * c.hidden_size;
      const both = passes(false);
      return { bytes: both * BYTES * distinct * one, operations: both * 2 * rows * each * one };
    };
    return [product(c.hidden_size, count, rows), matrices(2), matrices(1)];
  }

  /** `isRead`: for all tokens, not the last alone. */
  function attention(isRead: boolean): Phase {
    const pair = 4 * queries; // operations of a query with a key, all heads
    if (work.kind === "decode") {
      const seen = work.context + work.tokens / 2;
      return { bytes: cacheBytes(c, work) / c.num_hidden_layers, operations: work.count * seen * pair };
    }
    const each = isRead ? (work.context * work.context) / 2 : work.context;
    const count = work.kind === "lora" ? work.count : prompts;
    return { bytes: 0, operations: count * each * pair * (work.kind === "lora" ? 3.5 : 1) };
  }

  function head(): Phase {
    // The last token of a row that is trained predicts none.
    const predicting = work.kind === "prefill" ? prompts : work.kind === "lora" ? rows - work.count : rows;
    return product(c.hidden_size, c.vocab_size, predicting);
  }
}

function sum(phases: Phase[]): Phase {
  const bytes = phases.reduce((total, phase) => total + phase.bytes, 0);
  return { bytes, operations: phases.reduce((total, phase) => total + phase.operations, 0) };
}
