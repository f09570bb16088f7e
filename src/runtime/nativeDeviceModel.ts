// A model in this machine's memory.

import { clearTimeout, setTimeout } from "node:timers";
import { elementsOf } from "../elementCount.js";
import { InsufficientMemoryError } from "../errors.js";
import { cancellable } from "./cancellation.js";
import type { DeviceModel, SlotParams, StepOutput, StepSequence } from "./device.js";
import type { ElementType, ModelSpec } from "./modelSpec.js";
import { type NativeModel, type NativeTrainer, nativeAddon, tensorList } from "./nativeAddon.js";
import { NativeDeviceTrainer } from "./nativeDeviceTrainer.js";
import type { AdapterSpec, NamedTensors, Trainer } from "./trainer.js";

/** Of each number that is trained: master, gradient, gradient of the open pass and two moments, float32. */
const MASTER_BYTES = 20;
/** Of what is held of an adapter: value and moments. */
const HELD_BYTES = 12;
/** A trainer may rest that takes no more of what the device has left. */
const RESTING_SHARE = 1 / 4;
const computeBytes = (dtype: ElementType) => (dtype === "float32" ? 4 : 2);

/** What `trainWeights` takes: also the compute weights' next version. */
export function weightTrainingBytes(config: ModelSpec, dtype: ElementType): number {
  return elementsOf(nativeAddon().weightTensors(config)) * (MASTER_BYTES + computeBytes(dtype));
}

/** Adapters' ranks are filled up to whole panels in what is computed with. */
const RANK_PANEL = 16;

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
  readonly takesGuesses: boolean;
  readonly bytes: number;
  readonly weightOnly: readonly string[];

  readonly device: string;

  #trainers = 0;
  /** Milliseconds for which memory of training stays when no trainer is left. */
  #keptFor = 0;
  #givingBack: NodeJS.Timeout | undefined;

  constructor(native: NativeModel, config: ModelSpec, dtype: ElementType, device: string) {
    this.device = device;
    this.#native = native;
    this.config = config;
    this.dtype = dtype;
    const info = native.info();
    this.weightOnly = info.weightOnly;
    this.pages = info.pages;
    this.pageGroups = info.pageGroups;
    this.recurrentStates = info.recurrentStates;
    this.takesGuesses = info.takesGuesses;
    this.bytes = info.bytes;
    this.kernelSet = info.kernelSet;
    this.differenceToExact = info.differenceToExact;
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

  adapterBytes(version: number): number {
    return this.#native.adapterBytes(version);
  }

  /**
   * As of weights, of its two factors, and the versions of two steps, of which one takes the other's place; each with its
   * transposes. And what is held of it to be written, which is not on another device.
   */
  adapterTrainingBytes(spec: AdapterSpec): number {
    const elements = elementsOf(nativeAddon().adapterTensors(this.config, spec));
    const padding = (Math.ceil(spec.rank / RANK_PANEL) * RANK_PANEL) / spec.rank;
    const held = this.device === "cpu" ? HELD_BYTES : 0;
    return elements * (MASTER_BYTES + held + 4 * padding * computeBytes(this.dtype));
  }

  async trainAdapter(spec: AdapterSpec, options: { seed: bigint; tensors?: NamedTensors }): Promise<Trainer> {
    const bytes = this.adapterTrainingBytes(spec);
    this.#require("training the adapter", bytes, "adapter");
    const tensors = options.tensors ? tensorList(options.tensors) : null;
    return this.#train(bytes, () => this.#native.trainAdapter(spec, options.seed, tensors));
  }

  async trainWeights(): Promise<Trainer> {
    const bytes = weightTrainingBytes(this.config, this.dtype);
    this.#require("training all weights", bytes, "model");
    return this.#train(bytes, () => this.#native.trainWeights());
  }

  keepTrainingMemory(milliseconds: number): void {
    this.#keptFor = milliseconds;
  }

  async #train(bytes: number, open: () => Promise<NativeTrainer>): Promise<Trainer> {
    const begin = () => {
      clearTimeout(this.#givingBack);
      this.#trainers += 1;
      if (this.#keptFor > 0) this.#native.keepTrainingMemory(true);
    };
    const end = () => {
      this.#trainers -= 1;
      if (this.#trainers > 0 || this.#keptFor === 0) return;
      this.#givingBack = setTimeout(() => this.#native.keepTrainingMemory(false), this.#keptFor).unref();
    };
    const mayRest = () => this.#keptFor > 0 && bytes <= nativeAddon().availableMemory(this.device) * RESTING_SHARE;
    begin();
    try {
      return new NativeDeviceTrainer(await open(), { begin, end, mayRest });
    } catch (error) {
      end();
      throw error;
    }
  }

  close(): void {
    this.#keptFor = 0;
    clearTimeout(this.#givingBack);
    this.#native.close();
  }

  #require(what: string, needed: number, option: string): void {
    const available = nativeAddon().availableMemory(this.device);
    if (needed > available) throw new InsufficientMemoryError(what, needed, available, option);
  }
}
