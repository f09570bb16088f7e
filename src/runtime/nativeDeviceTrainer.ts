// Training on this machine's processors.

import { elementsOf } from "../elementCount.js";
import { cancellable } from "./cancellation.js";
import { type NativePass, type NativeTrainer, tensorList } from "./nativeAddon.js";
import type { NamedTensors, PassResult, StatePart, Trainer, TrainPass, TrainRow } from "./trainer.js";

/** Floats that are taken from the native side at once. */
const AT_ONCE = 2 ** 18;

/** How a device counts those that are at work. */
export interface TrainerUse {
  begin(): void;
  end(): void;
  mayRest(): boolean;
}

export class NativeDeviceTrainer implements Trainer {
  readonly #native: NativeTrainer;
  readonly #use: TrainerUse;
  #isAtWork = true;

  readonly here = {
    hold: () => this.#native.hold(),
    pieces: (part: StatePart) => this.#pieces(part),
    rest: async () => {
      if (!this.#use.mayRest()) return false;
      await this.#native.rest();
      this.#end();
      return true;
    },
    resume: () => {
      if (this.#isAtWork) return;
      this.#use.begin();
      this.#isAtWork = true;
    },
    closed: async () => this.#native.closed(),
  };

  /** `use`: has begun. */
  constructor(native: NativeTrainer, use: TrainerUse) {
    this.#native = native;
    this.#use = use;
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

  async write(part: StatePart, tensors: NamedTensors, steps?: number): Promise<void> {
    await this.#native.write(part, tensorList(tensors), steps);
  }

  close(): void {
    this.#native.close();
    this.#end();
  }

  #end(): void {
    if (!this.#isAtWork) return;
    this.#isAtWork = false;
    this.#use.end();
  }

  async *#pieces(part: StatePart): AsyncGenerator<Uint8Array> {
    const floats = elementsOf(this.tensors());
    const room = new Float32Array(Math.min(floats, AT_ONCE));
    for (let from = 0; from < floats; from += room.length) {
      const piece = room.subarray(0, floats - from);
      this.#native.held(part, from, piece);
      yield new Uint8Array(piece.buffer, 0, piece.byteLength);
    }
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
