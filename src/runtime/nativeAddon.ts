// The compiled addon as JavaScript sees it, loaded at first use.

import {
  AnnealError,
  BadRequestError,
  ClosedError,
  ConflictError,
  InsufficientMemoryError,
  InternalServerError,
  ModelFileError,
  UnavailableError,
} from "../errors.js";
import { packageVersion } from "../packageFiles.js";
import { loadCore } from "./coreFile.js";
import type { DeviceRate, GpuDevice, LoadOptions, SlotParams, StepOutput, StepSequence } from "./device.js";
import type { CompiledGrammar, GrammarBudgets, GrammarVocabulary } from "./grammar.js";
import type { ElementType, ModelSpec, QuantizedFormat, QuantizedFormatName } from "./modelSpec.js";
import type { PolicyLossBatch, PolicyLossMetrics, PolicyLossSettings } from "./policyLoss.js";
import type { AdapterSpec, NamedTensors, PassResult, TrainRow } from "./trainer.js";

/** Aborts the calls it was given to, and tells how far they have come (0..1). */
export interface NativeCancellation {
  abort(): void;
  progress(): number;
}

export interface NativeTensor {
  name: string;
  shape: number[];
  data: Float32Array;
}

/** Named tensors as native code takes them. */
export function tensorList(tensors: NamedTensors): NativeTensor[] {
  return [...tensors].map(([name, { shape, data }]) => ({ name, shape, data }));
}

export interface NativePass {
  backward(dLogprobs: Float32Array[], dEntropies?: Float32Array[]): Promise<void>;
  close(): void;
}

export interface NativeTrainer {
  steps(): number;
  tensors(): { name: string; shape: number[] }[];
  forward(
    rows: TrainRow[],
    memoryBudget: number | undefined,
    cancellation?: NativeCancellation,
    entropyGradient?: boolean,
    keepBytes?: number,
  ): Promise<PassResult & { pass: NativePass }>;
  evaluate(
    rows: TrainRow[],
    adapter: number | undefined,
    cancellation?: NativeCancellation,
    memoryBudget?: number,
  ): Promise<PassResult>;
  memory(
    trained: TrainRow[][],
    evaluated: TrainRow[][],
    memoryBudget: number,
    entropyGradient?: boolean,
  ): Promise<{ passes: number; state: number }>;
  optimStep(settings: object): Promise<number>;
  zeroGrad(): Promise<void>;
  publish(): Promise<number>;
  read(part: string, tensor?: string): Promise<NativeTensor[]>;
  hold(): Promise<void>;
  /** As many numbers of what is held, from one on. */
  held(part: string, from: number, to: Float32Array): void;
  rest(): Promise<void>;
  write(part: string, tensors: NativeTensor[], steps?: number): Promise<void>;
  close(): void;
  /** After `close`: resolves when its memory has been given back. */
  closed(): Promise<void>;
}

export interface NativeModel {
  info(): {
    pages: number;
    pageGroups: Int32Array;
    recurrentStates: number;
    takesGuesses: boolean;
    bytes: number;
    kernelSet: string;
    differenceToExact: number;
    weightOnly: string[];
  };
  openSlot(params: SlotParams): number;
  closeSlot(slot: number): void;
  step(sequences: StepSequence[], cancellation?: NativeCancellation): Promise<StepOutput>;
  copyPages(from: Int32Array, to: Int32Array): void;
  copyRecurrentStates(from: Int32Array, to: Int32Array): void;
  loadAdapter(spec: AdapterSpec, tensors: NativeTensor[]): Promise<number>;
  releaseAdapter(version: number): void;
  adapterBytes(version: number): number;
  trainAdapter(spec: AdapterSpec, seed: bigint, tensors: NativeTensor[] | null): Promise<NativeTrainer>;
  trainWeights(): Promise<NativeTrainer>;
  keepTrainingMemory(keep: boolean): void;
  close(): void;
}

export interface NativeAddon {
  initialize(
    makeError: (code: string, message: string, param: string, needed: number, available: number) => Error,
  ): void;
  threads(): number;
  setThreads(threads: number): void;
  arithmetics(): { name: string; exact: boolean }[];
  availableMemory(device: string): number;
  gpus(hardware: boolean): Promise<GpuDevice[]>;
  gpuRate(device: string): Promise<DeviceRate>;
  pipelines(device: string): Uint8Array;
  restorePipelines(device: string, data: Uint8Array): void;
  memory(
    config: ModelSpec,
    dtype: ElementType,
    device: string,
    gpuLayers?: number,
  ): {
    weights: number;
    page: number;
    pageGroups: Int32Array;
    recurrentState: number;
    activationPerToken: number;
    largestPiece: number;
  };
  weightTensors(config: ModelSpec): { name: string; shape: number[] }[];
  adapterTensors(config: ModelSpec, spec: AdapterSpec): { name: string; shape: number[] }[];
  quantizedFormats(): QuantizedFormat[];
  quantize(format: QuantizedFormatName, numbers: Float32Array): Promise<Uint8Array>;
  cancellation(): NativeCancellation;
  load(
    options: Omit<LoadOptions, "signal" | "onProgress"> & { device: string; gpuLayers?: number },
    cancellation?: NativeCancellation,
  ): Promise<NativeModel>;
  /** A model without weights: its steps bring `logits` with them, of every token with promptLogprobs, else of the last. */
  givenLogits(options: { vocab: number; maxPositions: number; pages: number }): NativeModel;
  grammarVocabulary(
    tokens: Uint8Array,
    offsets: Int32Array,
    special: Int32Array,
    end: Int32Array,
  ): Promise<GrammarVocabulary>;
  compileGrammar(
    vocabulary: GrammarVocabulary,
    program: Int32Array,
    budgets: GrammarBudgets,
    client: string,
    cancellation?: NativeCancellation,
  ): Promise<CompiledGrammar>;
  policyLoss(
    batch: PolicyLossBatch,
    settings: PolicyLossSettings,
  ): { dLogprobs: Float32Array; metrics: PolicyLossMetrics };
}

let loaded: NativeAddon | undefined;

/** @throws UnavailableError when the addon was not built for this machine. */
export function nativeAddon(): NativeAddon {
  if (loaded) return loaded;
  loaded = loadCore(packageVersion()) as NativeAddon;
  loaded.initialize(typedError);
  return loaded;
}

/**
 * The error that native code throws or rejects with. `needed` and `available`: bytes that `message` names the use of; 0: it is a
 * message.
 */
function typedError(code: string, message: string, at: string, needed = 0, available = 0): AnnealError {
  const param = at || null;
  switch (code) {
    case "invalid_argument":
    case "invalid_grammar":
    case "grammar_too_complex":
    case "grammar_left_recursive":
    case "grammar_empty":
      return new BadRequestError(message, { code, param });
    case "closed":
      return new ClosedError(message);
    case "conflict":
      return new ConflictError(message, { code, param });
    case "unusable_device":
      return new UnavailableError(message, {
        code,
        param,
        hint: "anneal devices lists what models can be computed on",
      });
    case "device_lost":
      return new UnavailableError(message, { code, param, hint: "open the engine again, or with the device cpu" });
    case "insufficient_memory":
      if (needed > 0) return new InsufficientMemoryError(message, needed, available, at);
      return new UnavailableError(message, { code, param, hint: "use a smaller model, fewer pages or shorter rows" });
    case "no_threads":
      return new UnavailableError(message, { code, hint: "raise the limits of threads and memory of this process" });
    case "unusable_model_file":
      return new ModelFileError(at, message);
    case "aborted":
      return new AnnealError(message, 499, { code });
    default:
      return new InternalServerError(message, { code, param });
  }
}
