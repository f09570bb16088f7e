/**
 * The compute boundary: what the rest of the library sees of a device. Ids, block tables, token sources and scalars cross
 * it; page and panel layouts do not. Arguments are copied and checked on the native side of the call: a wrong one is a
 * `BadRequestError` with code "invalid_argument" and the argument's path as `param`, use after `close()` a
 * `ClosedError`, never a crash. An aborted call rejects with `signal.reason`.
 */
import type { SamplingNumbers } from "../samplingNumbers.js";
import type { GrammarMatcher } from "./grammar.js";
import type { ElementType, ModelSpec, TensorLocation } from "./modelSpec.js";
import type { AdapterSpec, KeptState, NamedTensors, Trainer } from "./trainer.js";

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

/** Tokens that a step has computed unasked. */
export interface Guesses {
  count: number;
  /** Where the first of them stood before: in the slot's `lookup`, and behind it its outputs. */
  place: number;
  /** The draws before the step's last one that were as guessed: of the first of these tokens. */
  kept: KeptDraw[];
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
  /** Per sequence: what was guessed; null or absent: nothing. */
  drafts?: (Guesses | null)[];
  /** Per sequence: the most likely tokens, or those of the slot's logprobIds. */
  top: ({ ids: Int32Array; logprobs: Float32Array } | null)[];
  /** Entries whose `next` is -1 have logprob 0 and rank 0. */
  prompt: (RowLogprobs[] | null)[];
  /** Per sequence: [states][hidden], where they were wanted. */
  states: (Float32Array | null)[];
  /** Native time. */
  seconds: number;
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
