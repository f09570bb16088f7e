// The runtime on this machine's processors.

import { clearInterval, setInterval } from "node:timers";
import { InsufficientMemoryError } from "../errors.js";
import type { Precision } from "../types/devices.js";
import { cancellable } from "./cancellation.js";
import type { DeviceModel, DeviceRate, GpuDevice, LoadOptions, Runtime } from "./device.js";
import type { CompiledGrammar, GrammarBudgets, GrammarRequest, GrammarVocabulary, VocabularyParts } from "./grammar.js";
import type { ElementType, ModelSpec, QuantizedFormat, QuantizedFormatName } from "./modelSpec.js";
import { nativeAddon } from "./nativeAddon.js";
import { NativeDeviceModel, weightTrainingBytes } from "./nativeDeviceModel.js";
import type { PolicyLossBatch, PolicyLossMetrics, PolicyLossSettings } from "./policyLoss.js";
import type { AdapterSpec } from "./trainer.js";

const PROGRESS_INTERVAL_MS = 50;

const names = (wanted: (arithmetic: { name: string; exact: boolean }) => boolean): string[] =>
  nativeAddon()
    .arithmetics()
    .filter(wanted)
    .map(({ name }) => name);

class NativeRuntime implements Runtime {
  constructor(
    readonly device: string,
    private readonly gpuLayers?: number,
    private readonly precision: Precision = "exact",
  ) {}

  get threads(): number {
    return nativeAddon().threads();
  }

  get kernelSets(): readonly string[] {
    return names(({ exact }) => exact);
  }

  get fastKernelSets(): readonly string[] {
    return names(({ name, exact }) => !exact && name !== "fast");
  }

  get hasMatrixUnit(): boolean {
    return names(({ name }) => name === "fast").length > 0;
  }

  setThreads(threads: number): void {
    nativeAddon().setThreads(threads);
  }

  memory(config: ModelSpec, dtype: ElementType) {
    return {
      ...nativeAddon().memory(config, dtype, this.device, this.gpuLayers),
      weightTraining: weightTrainingBytes(config, dtype),
    };
  }

  availableMemory(): number {
    return nativeAddon().availableMemory(this.device);
  }

  async load(options: LoadOptions): Promise<DeviceModel> {
    const { signal, onProgress, ...what } = options;
    const { config, dtype } = what;
    const native = nativeAddon();
    const { device, gpuLayers } = this;
    const fast = this.precision === "fast" ? { kernelSet: "fast" } : {};
    requireMemory(this, options);
    return cancellable(signal ?? new AbortController().signal, async (cancellation) => {
      const timer = onProgress && setInterval(() => onProgress(cancellation!.progress()), PROGRESS_INTERVAL_MS);
      timer?.unref();
      try {
        const model = await native.load({ ...what, ...fast, device, gpuLayers }, cancellation);
        if (signal?.aborted) {
          // aborted after the last weight was read
          model.close();
          throw signal.reason;
        }
        onProgress?.(1);
        return new NativeDeviceModel(model, config, dtype, device);
      } finally {
        clearInterval(timer);
      }
    });
  }
}

function requireMemory(runtime: Runtime, { config, dtype, kvPages, recurrentStates = 0 }: LoadOptions): void {
  const { weights, page, recurrentState } = runtime.memory(config, dtype);
  const available = runtime.availableMemory();
  if (weights > available) throw new InsufficientMemoryError("the model's weights", weights, available, "dtype");
  const needed = weights + page * kvPages + recurrentState * recurrentStates;
  if (needed > available) {
    throw new InsufficientMemoryError(`the model with ${kvPages} pages of KV cache`, needed, available, "kvPages");
  }
}

/**
 * The compute of this process, on the processor or a GPU ("vulkan:0"). Threads are shared by all engines and worker threads
 * of the process, and default to the physical cores it may use; `threads` sets them for everyone. `gpuLayers`: of every model, the last
 * so many layers are the GPU's and the others the processor's. `precision`: "fast" takes the processor's matrix unit, or the
 * GPU's cooperative matrices, and loads nothing where there are none.
 */
export function openRuntime(
  options: { threads?: number; device?: string; gpuLayers?: number; precision?: Precision } = {},
): Runtime {
  const runtime = new NativeRuntime(options.device ?? "cpu", options.gpuLayers, options.precision);
  if (options.threads !== undefined) runtime.setThreads(options.threads);
  return runtime;
}

/**
 * The GPUs of this machine, each opened and tried; none where there is no Vulkan. `hardware`: none in software, which are not
 * opened then.
 */
export function listGpus({ hardware = false } = {}): Promise<GpuDevice[]> {
  return nativeAddon().gpus(hardware);
}

/**
 * Measures a GPU for about a second.
 * @throws UnavailableError with code "unusable_device" for one that is not there.
 */
export function measureGpu(device: string): Promise<DeviceRate> {
  return nativeAddon().gpuRate(device);
}

/** What the driver of a GPU that models are loaded on made of shaders; empty where none is. */
export function pipelinesOf(device: string): Uint8Array {
  return nativeAddon().pipelines(device);
}

/** Gives back what `pipelinesOf` gave an earlier process, before models are loaded. What is of another driver is not used. */
export function restorePipelines(device: string, data: Uint8Array): void {
  nativeAddon().restorePipelines(device, data);
}

/** The tensors of a decoder by Hugging Face's names. */
export function weightTensors(config: ModelSpec): { name: string; shape: number[] }[] {
  return nativeAddon().weightTensors(config);
}

/** The tensors of an adapter of a decoder by PEFT's names. */
export function adapterTensors(config: ModelSpec, spec: AdapterSpec): { name: string; shape: number[] }[] {
  return nativeAddon().adapterTensors(config, spec);
}

let formats: readonly QuantizedFormat[] | undefined;

/** Every format of quantised weights that there is. */
export function quantizedFormats(): readonly QuantizedFormat[] {
  formats ??= nativeAddon().quantizedFormats();
  return formats;
}

/**
 * Numbers of rows as blocks of a format, as they lie in GGUF, off the JavaScript thread; Q5_1 and Q5_K are read and not made.
 * @throws BadRequestError "invalid_argument" for numbers that are not finite, or no whole blocks.
 */
export async function quantizeNumbers(format: QuantizedFormatName, numbers: Float32Array): Promise<Uint8Array> {
  return nativeAddon().quantize(format, numbers);
}

/** Off the JavaScript thread. @throws BadRequestError "invalid_argument" for offsets or ids that do not fit. */
export async function prepareVocabulary(parts: VocabularyParts): Promise<GrammarVocabulary> {
  return nativeAddon().grammarVocabulary(parts.tokens, parts.offsets, parts.special, parts.end);
}

/**
 * Compiles a grammar in its encoded intermediate form, on threads that do nothing else.
 *
 * @throws BadRequestError with code "grammar_too_complex" (`param` names the budget), "grammar_left_recursive" (`param`
 * names the rule by its index, "rules[3]"), "grammar_empty" (nothing matches) or "invalid_grammar" (malformed);
 * UnavailableError with code "no_threads" when the system starts no thread.
 */
export async function compileGrammar(
  vocabulary: GrammarVocabulary,
  program: Int32Array,
  budgets: GrammarBudgets = {},
  { client = "", signal }: GrammarRequest = {},
): Promise<CompiledGrammar> {
  return cancellable(signal, (cancellation) =>
    nativeAddon().compileGrammar(vocabulary, program, budgets, client, cancellation),
  );
}

/**
 * The loss of a batch and its derivative by every log-probability.
 * @throws BadRequestError for arrays of different lengths or a missing one.
 */
export function policyLoss(
  batch: PolicyLossBatch,
  settings: PolicyLossSettings,
): { dLogprobs: Float32Array; metrics: PolicyLossMetrics } {
  return nativeAddon().policyLoss(batch, settings);
}
