/**
 * The compute boundary: what the rest of the library sees of a device. Ids, block tables, token sources and scalars cross
 * it; page and panel layouts do not. Arguments are copied and checked on the native side of the call: a wrong one is a
 * `BadRequestError` with code "invalid_argument" and the argument's path as `param`, use after `close()` a
 * `ClosedError`, never a crash. An aborted call rejects with `signal.reason`.
 */
import type { SamplingNumbers } from "../samplingNumbers.js";
import type { KvCache } from "../types/options.js";
import type { GrammarMatcher } from "./grammar.js";

export type ElementType = "float32" | "bfloat16";

/**
 * Weights in blocks with scales, by the name of one of `quantizedFormats()`: "Q4_K" as GGUF's type of that name has them, "INT4_128"
 * with a scale and a zero point for every 128 along a row.
 */
export type QuantizedFormatName = string;

/** Integers of 16 bits with a power of two for every 64: as much memory and as exact as bfloat16. */
export const WIDE_FORMAT: QuantizedFormatName = "INT16_64";

/** A quantised format that weights can have; the core says which there are. */
export interface QuantizedFormat {
  name: QuantizedFormatName;
  /** Of a block: a row is whole blocks. */
  numbers: number;
  bytes: number;
  /** Of a code. */
  bits: number;
  /** Made of tensors of codes, scales and zero points, see `Packing`; else files hold its blocks. */
  isPacked: boolean;
}

/** Whose layout codes, scales and zero points have: see native/weights/packed_matrix.h. */
export type Packing = "compressed_tensors" | "gptq" | "gptq_v2" | "awq";

/** Rotary position embedding of a layer, half rotation. */
export interface RopeSpec {
  /** "none": the layer does not see positions. */
  type: "none" | "default" | "linear" | "llama3" | "yarn" | "longrope" | "proportional";
  theta: number;
  /** Of a head's elements, from the first; above 0 and at most 1. */
  rotaryShare: number;
  /** linear, llama3, yarn */
  factor: number;
  /** llama3 */
  lowFreqFactor: number;
  highFreqFactor: number;
  /** llama3, yarn, longrope */
  originalMaxPositions: number;
  /** yarn (0: 0.1 ln(factor) + 1), longrope */
  attentionFactor: number;
  betaFast: number;
  betaSlow: number;
  /** yarn; 0: absent */
  mscale: number;
  mscaleAllDim: number;
  truncate: boolean;
  /** Turned queries are multiplied with 1 + queryScale ln(1 + floor(position / originalMaxPositions)); 0: with 1. */
  queryScale: number;
  /**
   * longrope: what the wavelength of each pair of elements is multiplied with; the long ones in a model that is loaded for
   * more than `originalMaxPositions`.
   */
  shortFactors: number[];
  longFactors: number[];
}

export interface AttentionSpec {
  heads: number;
  kvHeads: number;
  headDim: number;
  rope: RopeSpec;
  /** Multiplies q.k; 0: 1 / sqrt(headDim). */
  scale: number;
  /** Positions that a token sees, itself included; 0: all before it. */
  window: number;
  /** Scores become cap * tanh(score / cap); 0: as they are. */
  softCap: number;
  /** An RMS norm of every head of q and k, before rope. */
  qkNorm: boolean;
  qBias: boolean;
  kBias: boolean;
  vBias: boolean;
  oBias: boolean;
  /** q, k and v are stored, and adapted, as one: qkv_proj. */
  fusedQkv: boolean;
  /** Every head of q_proj is followed by a gate, of which the logistic multiplies what the head puts out. */
  outputGate: boolean;
  /** Every head has a score of its own that takes part in its softmax, and has no value. Absent: none has. */
  sinks?: boolean;
  /** An RMS norm of every head of v, which has no weight. */
  vNorm?: boolean;
  /** There is no v_proj: values are what k_proj puts out. */
  valuesFromKeys?: boolean;
  /** The layer before whose keys and values are attended to, in the place of own ones. */
  keysOf?: number;
}

/** Gated delta rule (linear attention) after a short convolution; key heads are shared by valueHeads / keyHeads value heads. */
export interface DeltaRuleSpec {
  keyHeads: number;
  valueHeads: number;
  keyDim: number;
  valueDim: number;
  /** Tokens of the convolution. */
  kernel: number;
}

/**
 * Gated short convolution: of b, c and x, which its first projection puts out one after the other, its second is given c times a causal
 * convolution of b times x over the tokens, channel by channel.
 */
export interface ShortConvolutionSpec {
  /** Of each of the three. */
  width: number;
  /** Tokens. */
  kernel: number;
  /** Of the convolution and of both projections. */
  bias: boolean;
}

/** "clamped_swiglu": of gate up to 7 and up from -7 to 7, gate * logistic(1.702 gate) * (up + 1). */
export type Activation = "silu" | "gelu_tanh" | "clamped_swiglu";

/** down(activation(gate(x)) * up(x)), or down(activation(gate(x), up(x))) */
export interface FeedForwardSpec {
  intermediate: number;
  activation: Activation;
  bias: boolean;
  /** gate and up are stored, and adapted, as one: gate_up_proj. */
  fusedGateUp: boolean;
}

/**
 * The sum over the `perToken` experts that the router finds likeliest for a token, each a feed-forward as above, times
 * their shares in the softmax over all, or the logistics of their own scores; and of one more, that every token has, times the
 * logistic of its own gate.
 */
export interface ExpertsSpec {
  /** Of the layer. */
  count: number;
  perToken: number;
  /** Of each. */
  intermediate: number;
  activation: Activation;
  /** The shares of those that are chosen are divided by their sum. */
  normalized: boolean;
  /** Of the one that every token has; absent: there is none. */
  sharedIntermediate?: number;
  /** The router has biases, and so has each expert. Absent: none has. */
  bias?: boolean;
  /** Absent: "softmax". */
  scores?: "softmax" | "logistic";
  /** Experts are chosen by the logistic of their score and a bias of their own, which their share leaves out. */
  scoreBias?: boolean;
  /** What shares by logistics are multiplied with. Absent: 1. */
  scale?: number;
}

/** x += attention(norm(x)), then x += feedForward(norm(x)). */
export interface LayerSpec {
  /**
   * null: the layer has `deltaRule` or `shortConvolution` in its place, with a recurrent state for each sequence instead of keys and
   * values.
   */
  attention: AttentionSpec | null;
  deltaRule?: DeltaRuleSpec;
  shortConvolution?: ShortConvolutionSpec;
  /** null: the layer has `experts` in its place. */
  feedForward: FeedForwardSpec | null;
  experts?: ExpertsSpec;
  /** Whether what attention and feed-forward put out is normalised as well. */
  norms: "before" | "before_and_after";
  /** Of what attention and feed-forward add. */
  residualScale: number;
  /** What the layer puts out is multiplied with a number of its own. */
  scaled?: boolean;
  /** What its tensors, and what adapters target, are called: as in most families, or in LFM2. Absent: "usual". */
  names?: "usual" | "lfm2";
}

/**
 * What a model is, whatever computes it: its families differ only in this. Made of config.json by the weights room; what a
 * device does not have of it is refused by name when it is loaded.
 */
export interface ModelSpec {
  hidden: number;
  vocab: number;
  maxPositions: number;
  layers: LayerSpec[];
  rmsEps: number;
  /** Norms multiply by 1 + weight. */
  normAddsOne: boolean;
  /** The head's weight is the embedding's. */
  tiedHead: boolean;
  embeddingScale: number;
  /** That scale, and embeddings times it, are rounded to the compute type. */
  embeddingRounds: boolean;
  logitScale: number;
  /** 0: none. */
  logitSoftCap: number;
  /** Width of what every layer is given of a token beside the residual stream, gates and adds. Absent: nothing. */
  tokenInputs?: number;
  /** Matrices, by Hugging Face's name, that are kept and multiplied quantised; the others are of the compute type. */
  quantized?: { tensor: string; format: QuantizedFormatName }[];
  /** How keys and values are kept: "int8" as codes of 8 bits with a scale for every position and head. Absent: "exact". */
  kvCache?: KvCache;
}

/** Where a tensor lies: native code reads it with positioned reads, never a map. `name` is Hugging Face's. */
export interface TensorLocation {
  name: string;
  file: string;
  /** Bytes from the start of the file. */
  offset: number;
  bytes: number;
  /** F32, BF16, F16 or a quantised format. */
  dtype: QuantizedFormatName;
  shape: number[];
  /** Rows of q or k as GGUF stores them for this many heads: rotary pairs side by side, and not half a head apart. */
  interleavedHeads?: number;
  /** Value heads of a delta rule as GGUF stores them. */
  tiledHeads?: TiledHeads;
  /** Of a vector: -exp(x) is stored for every x. */
  negatedExp?: boolean;
  /** Of floats that do not lie row by row. */
  strides?: Strides;
  /** Of MXFP4 with codes, which lie at `offset`, two neighbours to a byte, and scales apart. */
  apart?: ScalesApart;
  /** Of a packed format, whose codes lie at `offset`. */
  packed?: PackedTensor;
}

/** Number (row, column) is the one at first + row * `row` + column * `column` of those at `offset`; a vector is one row. */
export interface Strides {
  first: number;
  row: number;
  column: number;
}

/** Heads in groups of as many, stored so that the first of every group stands before the second of any. */
export interface TiledHeads {
  heads: number;
  groups: number;
  /** Rows, columns or elements of a head. */
  width: number;
  /** Rows before all heads, in their usual order. */
  first: number;
  /** Heads are columns of the matrix, and not rows. */
  columns: boolean;
}

/** Row i of the matrix is row first + i * step of the codes and of the scales. */
export interface ScalesApart {
  scales: TensorPart;
  first: number;
  step: number;
}

export interface PackedTensor {
  packing: Packing;
  /** Numbers of a row that share a scale. */
  group: number;
  scales: TensorPart;
  /** Absent: all are half of the codes' range. */
  zeros?: TensorPart;
}

/** A tensor that is part of another; `dtype` as safetensors names it. */
export interface TensorPart {
  file: string;
  offset: number;
  bytes: number;
  dtype: string;
}

export interface LoadOptions {
  config: ModelSpec;
  tensors: TensorLocation[];
  dtype: ElementType;
  /** KV pages of 64 positions that all sequences share, of every group of layers. */
  kvPages: number;
  /** Of a model with recurrent layers: states of sequences, and of prefixes that are kept; needed there. */
  recurrentStates?: number;
  /**
   * Of the cpu: one of `Runtime.kernelSets`, the best by default, on which bits do not depend; one of `fastKernelSets`, which have
   * bits of their own; or "fast", the matrix unit. Of a GPU: "exact", the default, or "fast", which has bits of its own.
   */
  kernelSet?: string;
  /**
   * Of a model with quantised weights: those whose products of this text err by more than 5 % when its activations are rounded
   * to 8 bits are multiplied with activations as they are. Absent: none. Also what `differenceToExact` is measured by.
   */
  gateText?: Int32Array;
  signal?: AbortSignal;
  /** Called with 0..1 while weights are read. */
  onProgress?(fraction: number): void;
}

/** A GPU that models can be computed on, as Vulkan lists it. */
export interface GpuDevice {
  /** "vulkan:0" */
  id: string;
  name: string;
  driver: string;
  kind: "integrated" | "discrete" | "virtual" | "software" | "other";
  /** Bytes of its own, and of them those that this process could take now. */
  memory: number;
  available: number;
  /** Bytes that it gives at once. */
  maxAllocation: number;
  /** Why models cannot run on it; empty: they can. */
  problem: string;
  /** Whether its multiply-adds round once; where they do not, that is done in double precision. */
  fused: boolean;
  /** Whether numbers below 2^-126 become zero, as on the processor. */
  flushesDenormals: boolean;
  /** Whether its arithmetic gives the processor's bits, as tried on a few thousand numbers. */
  exact: boolean;
  /** Whether it has cooperative matrices, which `kernelSet` "fast" takes. */
  fast: boolean;
}

/** How fast a device could be, of which what is computed on it is a share. */
export interface DeviceRate {
  /** Bytes read from its memory in a second. */
  bandwidth: number;
  /** Operations of multiply-adds in a second, two each. */
  operations: number;
  /** The same on cooperative matrices, which precision "fast" multiplies with; 0: it has none. */
  matrixOperations: number;
}

export interface Runtime {
  /** What it loads models onto: "cpu", "vulkan:0". */
  readonly device: string;
  readonly threads: number;
  /** Of the process-wide executor; takes effect between tasks. */
  setThreads(threads: number): void;
  /** Instruction sets this processor can run, best last. All give the same bits. */
  readonly kernelSets: readonly string[];
  /**
   * Of the fast family, whose bits are those of a matrix unit, best last: "amx" is that unit, what comes before has its bits by vectors.
   */
  readonly fastKernelSets: readonly string[];
  /** Whether the processor has a matrix unit that this process may use, which precision "fast" multiplies with. */
  readonly hasMatrixUnit: boolean;
  /**
   * Bytes that load() would take for weights, for one KV page of every group of layers, for one recurrent state (0: sequences
   * have none), and for one token of saved training activations; of the weights, those that a device must give at once (0: no
   * matter); and what training all weights takes besides, activations not counted.
   */
  memory(
    config: ModelSpec,
    dtype: ElementType,
  ): {
    weights: number;
    page: number;
    pageGroups: ArrayLike<number>;
    recurrentState: number;
    activationPerToken: number;
    largestPiece: number;
    weightTraining: number;
  };
  /** Bytes this process could still take: by the operating system and the control group it runs in, or of the GPU's own memory. */
  availableMemory(): number;
  /** Reads the weights. `InsufficientMemoryError` before anything is taken; `ModelFileError` for a short or unreadable file. */
  load(options: LoadOptions): Promise<DeviceModel>;
}

export interface ThinkingBudget {
  /** Tokens that thoughts may have; where they have them, `close` is forced. */
  tokens: number;
  /** Tokens of the thoughts that the prompt ends in; -1: it has opened none. */
  used: number;
  /** Begins thoughts in the output; not empty. */
  open: Int32Array;
  /** Ends them; not empty. */
  close: Int32Array;
  /** Whether they may be opened again; all of them count. Default false. */
  several?: boolean;
}

/** Sampling state of one choice; sampling itself is native. Order and meaning of the filters are vLLM's. */
export interface SlotParams extends SamplingNumbers {
  /** 64 bits, signed or unsigned. */
  seed: bigint;
  /** Index of the choice: its own stream of draws. */
  choice: number;
  /** `endIds` are masked until this many tokens were drawn. */
  minTokens: number;
  endIds: Int32Array;
  biasIds: Int32Array;
  biasValues: Float32Array;
  /** null: no restriction */
  allowedIds: Int32Array | null;
  badWords: Int32Array[];
  /** For the repetition penalty. */
  prompt: Int32Array;
  /** How many of the most likely tokens to report with each draw; -1: none. */
  topLogprobs: number;
  /** Where topLogprobs is 0: the drawn token and these are reported instead, in this order. */
  logprobIds?: Int32Array | null;
  /** Ends thoughts that have become as long as they may be. */
  thinking?: ThinkingBudget | null;
  /** Outputs follow it from its present state on, in a copy of the slot's own. Its vocabulary must cover the model's. */
  grammar?: GrammarMatcher | null;
  /** Tokens that may end an output where the grammar is complete, beside the end tokens of its vocabulary. */
  stopIds?: Int32Array;
  /** Tokens that the grammar permits first, but that are drawn only where the likeliest token of all is one of them. */
  thoughtIds?: Int32Array;
}

export interface StepSequence {
  /** -1: no sampling state (pure prefill or prompt logprobs) */
  slot: number;
  /**
   * Tokens to compute, or null: the one this slot sampled last, and those forced after it (they need not visit
   * JavaScript first). `blocks` must have room for as many as that row's `maxForced` allowed.
   */
  tokens: Int32Array | null;
  /** Of the first token. */
  position: number;
  /**
   * Block table [blocks][groups]: the page of each block of positions 0 .. position + count - 1 for each group of layers; -1
   * where none of the tokens sees it.
   */
  blocks: Int32Array;
  /** Of a model with recurrent layers: the state behind `position` tokens, which becomes that behind these. */
  recurrent?: number;
  /** Adapter version id; 0: the base model. */
  adapter: number;
  /** Draw a token from the last token's logits. */
  sample: boolean;
  /**
   * 0-based index of the output token drawn: draws depend on (seed, choice, outputIndex) only. With `tokens` null it
   * counts one token before the draw; those forced after it are added.
   */
  outputIndex: number;
  /**
   * Tokens at most that are taken after the one drawn, while the slot's grammar permits no other (jump-forward decoding); 0 if
   * omitted.
   */
  maxForced?: number;
  /**
   * With `tokens` null: tokens at most that are computed behind them unasked, guessed from `lookup` and the outputs (speculative
   * decoding); 0 if omitted, 15 at most. Each is drawn from its logits as ever, and the draws go on behind it where it is what had
   * been guessed: the same tokens and logprobs come, several of them of one step. The next row that goes on from this one's draw
   * names the same `position` and `outputIndex` as if one token had come; `blocks` must have room for all that both may compute.
   */
  maxDrafts?: number;
  /** With maxDrafts: the prompt, where tokens like the last ones are looked for (prompt lookup). A slot keeps it. */
  lookup?: Int32Array | null;
  /** -1: none; k >= 0: for each computed token, the log-probability of `next` and of the k most likely tokens. */
  promptLogprobs: number;
  /** With promptLogprobs: the token following each computed token (length of tokens; -1: none). */
  next: Int32Array | null;
  /** Of the last so many of `tokens`, the hidden states after the final norm are wanted; 0 if omitted. */
  states?: number;
}

export interface RowLogprobs {
  logprob: number;
  /** Tokens at least as likely as this one; 1 is the best. */
  rank: number;
  topIds: Int32Array;
  topLogprobs: Float32Array;
}

/**
 * In place of a token: the same is to be drawn again, from the last of the row's tokens, which is computed again. A row that
 * goes on from this draw does that.
 */
export const PUT_OFF = -3;

/** A token that was drawn as it had been guessed. */
export interface KeptDraw {
  token: number;
  /** These three as of the step's last draw. */
  logprob: number;
  temperatureLogprob: number;
  top: { ids: Int32Array; logprobs: Float32Array } | null;
}

export interface StepOutput {
  /**
   * Per sequence: the sampled token, -1 if none was permitted (or the slot had no last token to go on from), -2 if `sample` was
   * false, PUT_OFF if it was not known in time what the grammar permits.
   */
  tokens: Int32Array;
  /** Per sequence: raw log softmax of the sampled token; 0 where it was forced and the slot's topLogprobs is -1. */
  logprobs: Float32Array;
  /**
   * Per sequence: log softmax, at the slot's temperature, of the sampled token: the bits that training at that temperature
   * computes. NaN where it is 0 or 1, or the slot's topLogprobs is -1.
   */
  temperatureLogprobs: Float32Array;
  /** Per sequence: what was taken after the sampled token, at most `maxForced` tokens; null: nothing. */
  forced: (Int32Array | null)[];
  /** Per sequence: how many guesses were computed, and the draws before `tokens` that were as guessed; null or absent: none. */
  drafts?: ({ count: number; kept: KeptDraw[] } | null)[];
  /** Per sequence: the most likely tokens, or those of the slot's logprobIds. */
  top: ({ ids: Int32Array; logprobs: Float32Array } | null)[];
  /** Entries whose `next` is -1 have logprob 0 and rank 0. */
  prompt: (RowLogprobs[] | null)[];
  /** Per sequence: [states][hidden], where they were wanted. */
  states: (Float32Array | null)[];
  /** Native time. */
  seconds: number;
}

export interface AdapterSpec {
  rank: number;
  alpha: number;
  /** Scale alpha / sqrt(rank) instead of alpha / rank. */
  rslora: boolean;
  /**
   * Of the model's: q_proj, k_proj, v_proj (or qkv_proj), o_proj, gate_proj, up_proj (or gate_up_proj), down_proj; of layers with
   * a delta rule in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, out_proj; of LFM2 in_proj, and out_proj, w1, w2, w3 for the others.
   */
  targets: string[];
}

/**
 * Row-major float32 tensors by name: "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" for adapters
 * (PEFT's), "model.layers.0.self_attn.q_proj.weight" for weights (Hugging Face's).
 */
export type NamedTensors = Map<string, { shape: number[]; data: Float32Array }>;

/** Weights and moments that a device elsewhere keeps: what `trainAdapter` and `loadAdapter` can go on from there. */
export interface KeptState {
  /** The device's own name of it. */
  name: string;
  /** Optimizer steps behind it. */
  steps: number;
}

/** What one completion is drawn by where the device draws it whole. */
export interface CompletionSettings {
  maxTokens: number;
  temperature: number;
  topP: number;
  /** 0: all. */
  topK: number;
  seed: bigint;
  /** Tokens that end it; the last token is then one of them. */
  stopIds: readonly number[];
}

/** A device elsewhere, which draws whole completions; its `step` and `openSlot` are refused. */
export interface CompletingDevice extends DeviceModel {
  complete(
    adapter: number,
    prompt: readonly number[],
    count: number,
    settings: CompletionSettings,
    signal?: AbortSignal,
  ): Promise<{ tokens: number[]; logprobs: number[] }[]>;
}

export interface DeviceModel {
  readonly config: ModelSpec;
  readonly dtype: ElementType;
  /** What it is loaded on: "cpu", "vulkan:0". */
  readonly device: string;
  readonly kernelSet: string;
  /**
   * Of `kernelSet` "fast": the mean absolute difference of `gateText`'s log-probabilities from those of exact arithmetic; 0 where that
   * is the model's own.
   */
  readonly differenceToExact: number;
  /** Quantised weights that `gateText` made so, by name. */
  readonly weightOnly: readonly string[];
  readonly pageSize: 64;
  /** KV pages of each group of layers; those of all groups are numbered from 0 on. */
  readonly pages: number;
  /**
   * The groups of layers that have pages of their own: of each, the positions that its layers see, the token's own included;
   * 0: all before it. Pages of a group are not read where no token sees them.
   */
  readonly pageGroups: ArrayLike<number>;
  /** 0: sequences have none. */
  readonly recurrentStates: number;
  /** Whether steps may have tokens that are guessed (StepSequence.maxDrafts). */
  readonly takesGuesses: boolean;
  readonly bytes: number;
  openSlot(params: SlotParams): number;
  closeSlot(slot: number): void;
  step(sequences: StepSequence[], signal?: AbortSignal): Promise<StepOutput>;
  /** Queued in order with steps. */
  copyPages(from: Int32Array, to: Int32Array): void;
  /** Likewise. */
  copyRecurrentStates(from: Int32Array, to: Int32Array): void;
  /** Returns the version id (> 0). */
  loadAdapter(spec: AdapterSpec, tensors: NamedTensors, kept?: KeptState | null): Promise<number>;
  /** Of a device elsewhere: has a state that nothing goes on from any more deleted there, some time later, where that can be done. */
  discardState?(kept: KeptState): void;
  /** Freed when no step, pass or trainer uses it any more. */
  releaseAdapter(version: number): void;
  /** Bytes that serving a version takes here. */
  adapterBytes(version: number): number;
  /** Bytes that `trainAdapter` takes here, besides passes. */
  adapterTrainingBytes(spec: AdapterSpec): number;
  /** `kept`: where the device keeps states itself, the one to go on from; `withMoments`: with its moments. */
  trainAdapter(
    spec: AdapterSpec,
    options: { seed: bigint; tensors?: NamedTensors; kept?: KeptState | null; withMoments?: boolean },
  ): Promise<Trainer>;
  /** Trains all weights in place; adapters and other trainers must be closed. */
  trainWeights(): Promise<Trainer>;
  /**
   * From now on memory of passes stays for the next trainer, and goes back to the system so long after the last one has been
   * closed. At first it goes at once.
   */
  keepTrainingMemory?(milliseconds: number): void;
  /** Waits for nothing: pending calls reject with code "closed", memory goes when the last one has ended. */
  close(): void;
}

export interface TrainRow {
  tokens: Int32Array;
  /** Index t is 1 when the prediction of token t + 1 is wanted; absent: all. */
  trained?: Uint8Array;
  /**
   * Index t is what the logits that predict token t + 1 are divided by, 1e-6 to 1e6; absent: 1. Logprobs and entropies are then
   * of the softmax at that temperature.
   */
  temperatures?: Float32Array;
  /** Index of an earlier row whose first `prefixLength` tokens this row continues: they are computed once. */
  prefix?: number;
  prefixLength?: number;
}

export interface PassResult {
  /** Per row: index t holds the natural-log probability of token t + 1 given tokens 0..t; the last entry is 0. */
  logprobs: Float32Array[];
  /** Per row, aligned the same way, in nats over the whole vocabulary; NaN where the device does not tell them. */
  entropies: Float32Array[];
}

export interface Trainer {
  readonly steps: number;
  /**
   * Of a trainer elsewhere: has its weights and moments kept there, or goes back to what is kept. Such a trainer's moments are
   * not read or written.
   */
  readonly elsewhere?: { keep(): Promise<KeptState>; goBack(kept: KeptState): Promise<void> };
  /**
   * Forward with activations kept on the native side. The pass and its backward take `memoryBudget` bytes at most (0 or
   * absent: no limit); where that is not enough even with all layers computed again in backward, it rejects with code
   * "insufficient_memory" and says what is needed. Up to `keepBytes` (absent: the budget) layers are kept rather than
   * computed again. The numbers do not depend on either. `entropyGradient`: backward may be given derivatives by
   * entropies, at the price of one more product with the head.
   */
  forward(
    rows: TrainRow[],
    options?: { memoryBudget?: number; keepBytes?: number; entropyGradient?: boolean; signal?: AbortSignal },
  ): Promise<TrainPass>;
  /**
   * No activations kept. `adapter`: a version id, 0 the base, absent this trainer's own weights. `memoryBudget` as of
   * `forward`.
   */
  evaluate(
    rows: TrainRow[],
    options?: { adapter?: number; memoryBudget?: number; signal?: AbortSignal },
  ): Promise<PassResult>;
  /**
   * Bytes that training over such passes takes, the most at one time, told without taking them: of the passes, one after the
   * other (`trained` forward and backward), and of the weights that are trained, with all that their steps need. Null where the
   * device does not tell; rejects as `forward` does where the budget is not enough for one of them.
   */
  memory?(
    passes: { trained: TrainRow[][]; evaluated: TrainRow[][] },
    options: { memoryBudget: number; entropyGradient?: boolean },
  ): Promise<{ passes: number; state: number } | null>;
  /** Clips by global norm (0: no clipping), one AdamW step with decoupled decay, gradients cleared. A gradNorm that is not finite left the weights as they were, unless `isApplied` says otherwise: a device elsewhere may not tell it. */
  optimStep(settings: {
    learningRate: number;
    beta1: number;
    beta2: number;
    eps: number;
    weightDecay: number;
    maxGradNorm: number;
  }): Promise<{ gradNorm: number; isApplied?: boolean }>;
  zeroGrad(): Promise<void>;
  /** The current weights as a version the sampler can use (immutable; same bits as the trainer's forward). 0 when the base itself is trained. */
  publish(): Promise<number>;
  tensors(): readonly { name: string; shape: number[] }[];
  /** Of all tensors, or of the one that is named, where the trainer is not elsewhere. */
  read(part: "value" | "gradient" | "moment1" | "moment2", tensor?: string): Promise<NamedTensors>;
  /** `steps` sets the optimizer's step count (bias correction). */
  write(part: "value" | "moment1" | "moment2", tensors: NamedTensors, steps?: number): Promise<void>;
  close(): void;
}

export interface TrainPass extends PassResult {
  /**
   * Accumulates the gradient of a loss whose derivatives by each logprob, and by each entropy, are given (same lengths as
   * logprobs). Frees the activations.
   */
  backward(dLogprobs: Float32Array[], dEntropies?: Float32Array[]): Promise<void>;
  close(): void;
}
