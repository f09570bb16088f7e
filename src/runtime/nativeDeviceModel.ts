// A model in this machine's memory.

import { InsufficientMemoryError } from "../errors.js";
import { cancellable } from "./cancellation.js";
import type {
  AdapterSpec,
  DeviceModel,
  ElementType,
  ModelSpec,
  NamedTensors,
  SlotParams,
  StepOutput,
  StepSequence,
  Trainer,
} from "./device.js";
import { type NativeModel, nativeAddon, tensorList } from "./nativeAddon.js";
import { NativeDeviceTrainer } from "./nativeDeviceTrainer.js";

/** Master, gradient, gradient of the open pass and two moments, float32; and the compute weights' next version. */
const bytesPerTrainedWeight = (dtype: ElementType) => 20 + (dtype === "float32" ? 4 : 2);

/** What `trainWeights` takes. */
export function weightTrainingBytes(config: ModelSpec, dtype: ElementType): number {
  const weights = nativeAddon()
    .weightTensors(config)
    .reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size), 0);
  return weights * bytesPerTrainedWeight(dtype);
}

export class NativeDeviceModel implements DeviceModel {
  readonly #native: NativeModel;
  readonly config: ModelSpec;
  readonly dtype: ElementType;
  readonly kernelSet: string;
  readonly differenceToExact: number;
  readonly pageSize = 64;
  readonly pages: number;
  readonly pageGroups: Int32Array;
  readonly recurrentStates: number;
  readonly bytes: number;
  readonly weightOnly: readonly string[];

  readonly device: string;

  constructor(native: NativeModel, config: ModelSpec, dtype: ElementType, device: string) {
    this.device = device;
    this.#native = native;
    this.config = config;
    this.dtype = dtype;
    const { pages, pageGroups, recurrentStates, bytes, kernelSet, differenceToExact, weightOnly } = native.info();
    this.weightOnly = weightOnly;
    this.pages = pages;
    this.pageGroups = pageGroups;
    this.recurrentStates = recurrentStates;
    this.bytes = bytes;
    this.kernelSet = kernelSet;
    this.differenceToExact = differenceToExact;
  }

  openSlot(params: SlotParams): number {
    return this.#native.openSlot(params);
  }

  closeSlot(slot: number): void {
    this.#native.closeSlot(slot);
  }

  step(sequences: StepSequence[], signal?: AbortSignal): Promise<StepOutput> {
    return cancellable(signal, async (cancellation) => this.#native.step(sequences, cancellation));
  }

  copyPages(from: Int32Array, to: Int32Array): void {
    this.#native.copyPages(from, to);
  }

  copyRecurrentStates(from: Int32Array, to: Int32Array): void {
    this.#native.copyRecurrentStates(from, to);
  }

  async loadAdapter(spec: AdapterSpec, tensors: NamedTensors): Promise<number> {
    return this.#native.loadAdapter(spec, tensorList(tensors));
  }

  releaseAdapter(version: number): void {
    this.#native.releaseAdapter(version);
  }

  async trainAdapter(spec: AdapterSpec, options: { seed: bigint; tensors?: NamedTensors }): Promise<Trainer> {
    const tensors = options.tensors ? tensorList(options.tensors) : null;
    return new NativeDeviceTrainer(await this.#native.trainAdapter(spec, options.seed, tensors));
  }

  async trainWeights(): Promise<Trainer> {
    const needed = weightTrainingBytes(this.config, this.dtype);
    const available = nativeAddon().availableMemory(this.device);
    if (needed > available) throw new InsufficientMemoryError("training all weights", needed, available, "model");
    return new NativeDeviceTrainer(await this.#native.trainWeights());
  }

  close(): void {
    this.#native.close();
  }
}
