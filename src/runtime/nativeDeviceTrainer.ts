// Training on this machine's processors.

import { once } from "../semaphore.js";
import { cancellable } from "./cancellation.js";
import { type NativePass, type NativeTrainer, tensorList } from "./nativeAddon.js";
import type { NamedTensors, PassResult, Trainer, TrainPass, TrainRow } from "./trainer.js";

export class NativeDeviceTrainer implements Trainer {
  readonly #native: NativeTrainer;
  readonly #closed: () => void;

  /** `closed` is called when it is, once. */
  constructor(native: NativeTrainer, closed: () => void) {
    this.#native = native;
    this.#closed = once(closed);
  }

  get steps(): number {
    return this.#native.steps();
  }

  forward(rows: TrainRow[], options: Parameters<Trainer["forward"]>[1] = {}): Promise<TrainPass> {
    const { memoryBudget, keepBytes, entropyGradient, signal } = options;
    return cancellable(signal, async (cancellation) => {
      const made = this.#native.forward(rows, memoryBudget, cancellation, entropyGradient, keepBytes);
      const { pass, ...result } = await made;
      return new NativeTrainPass(pass, result);
    });
  }

  evaluate(rows: TrainRow[], options: Parameters<Trainer["evaluate"]>[1] = {}): Promise<PassResult> {
    const { adapter, memoryBudget, signal } = options;
    return cancellable(signal, async (cancellation) =>
      this.#native.evaluate(rows, adapter, cancellation, memoryBudget),
    );
  }

  async memory(
    { trained, evaluated }: { trained: TrainRow[][]; evaluated: TrainRow[][] },
    { memoryBudget, entropyGradient }: { memoryBudget: number; entropyGradient?: boolean },
  ): Promise<{ passes: number; state: number } | null> {
    const told = await this.#native.memory(trained, evaluated, memoryBudget, entropyGradient);
    return told.state > 0 ? told : null;
  }

  async optimStep(settings: Parameters<Trainer["optimStep"]>[0]): Promise<{ gradNorm: number }> {
    return { gradNorm: await this.#native.optimStep(settings) };
  }

  async zeroGrad(): Promise<void> {
    await this.#native.zeroGrad();
  }

  async publish(): Promise<number> {
    return this.#native.publish();
  }

  tensors(): readonly { name: string; shape: number[] }[] {
    return this.#native.tensors();
  }

  async read(part: "value" | "gradient" | "moment1" | "moment2", tensor?: string): Promise<NamedTensors> {
    const tensors = await this.#native.read(part, tensor);
    return new Map(tensors.map(({ name, shape, data }) => [name, { shape, data }]));
  }

  async write(part: "value" | "moment1" | "moment2", tensors: NamedTensors, steps?: number): Promise<void> {
    await this.#native.write(part, tensorList(tensors), steps);
  }

  close(): void {
    this.#native.close();
    this.#closed();
  }
}

class NativeTrainPass implements TrainPass {
  readonly #native: NativePass;
  readonly logprobs: Float32Array[];
  readonly entropies: Float32Array[];

  constructor(native: NativePass, result: PassResult) {
    this.#native = native;
    this.logprobs = result.logprobs;
    this.entropies = result.entropies;
  }

  async backward(dLogprobs: Float32Array[], dEntropies?: Float32Array[]): Promise<void> {
    await this.#native.backward(dLogprobs, dEntropies);
  }

  close(): void {
    this.#native.close();
  }
}
