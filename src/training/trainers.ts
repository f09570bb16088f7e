// Trainers of adapters: what opens them, and the one that waits for the job that goes on from where another has ended.

import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers";
import { fileStamp } from "../fileStamp.js";
import type { AdapterSpec, DeviceModel, Trainer } from "../runtime/runtime.js";
import { once, type Release } from "../semaphore.js";
import { ADAPTER_SEED, type AdapterState } from "./checkpointFiles.js";
import type { Objective } from "./optimizer.js";
import type { TrainingBase } from "./trainingBase.js";

/** A trainer, and what it trains. */
interface Opened {
  readonly spec: AdapterSpec;
  readonly trainer: Trainer;
  /** Ends it, and gives back its memory. */
  close(): void;
}

export interface OpenTrainer extends Opened {
  /**
   * Where it holds what the checkpoint in this folder does, whose files had these `stampsOf` when nobody else knew of them:
   * keeps it for whoever goes on from there, if that may be.
   */
  leave(folder: string, stamps: string | null): Promise<void>;
}

/** One that has been left. */
interface Resting {
  opened: Opened;
  objective: Objective;
  device: DeviceModel;
  folder: string;
  /** Of the folder's files. */
  stamps: string;
  timer: NodeJS.Timeout;
}

/** Reading a checkpoint and making its trainer anew takes longer than many a step of a loop. */
export class Trainers {
  readonly #holdAdapter: (bytes: number) => Release;
  /** Milliseconds, of a device that keeps memory of training; 0: none waits. */
  readonly #restsFor: number;
  #resting: Resting | null = null;
  #isClosed = false;

  /** `holdAdapter` counts what an adapter in training takes besides passes. @throws InsufficientMemoryError */
  constructor(holdAdapter: (bytes: number) => Release, restsFor = 0) {
    this.#holdAdapter = holdAdapter;
    this.#restsFor = restsFor;
  }

  /**
   * The trainer that was left with the checkpoint in `folder`, with the moments of this objective, unless one of its files has
   * changed since. Null: there is none.
   */
  async resume(base: TrainingBase, folder: string, objective: Objective): Promise<OpenTrainer | null> {
    const resting = this.#resting;
    if (resting?.folder !== folder || resting.objective !== objective || resting.device !== base.device) return null;
    if (stampsOf(folder) !== resting.stamps) {
      await this.drop();
      return null;
    }
    this.#forget(resting);
    resting.opened.trainer.here!.resume();
    return this.#opened(resting.opened, base.device, objective);
  }

  /**
   * A trainer that goes on from `state`; moments of another objective are left behind.
   * @throws InsufficientMemoryError before memory is taken.
   */
  async open(base: Pick<TrainingBase, "device">, state: AdapterState, objective: Objective): Promise<OpenTrainer> {
    // Memory that somebody needs now.
    await this.drop();
    const { device } = base;
    const release = this.#holdAdapter(device.adapterTrainingBytes(state.spec));
    try {
      const trainer = await restoreTrainer(device, state, objective);
      const close = once(() => {
        trainer.close();
        release();
      });
      return this.#opened({ spec: state.spec, trainer, close }, device, objective);
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Closes the one that waits. Resolves when its memory is there again. */
  async drop(): Promise<void> {
    const resting = this.#resting;
    if (!resting) return;
    this.#forget(resting);
    const { close, trainer } = resting.opened;
    close();
    await trainer.here!.closed().catch(() => undefined);
  }

  /** From now on none waits. */
  close(): void {
    this.#isClosed = true;
    void this.drop();
  }

  #forget({ timer }: Resting): void {
    clearTimeout(timer);
    this.#resting = null;
  }

  #opened(opened: Opened, device: DeviceModel, objective: Objective): OpenTrainer {
    let isLeft = false;
    return {
      ...opened,
      close: () => {
        if (!isLeft) opened.close();
      },
      leave: async (folder, stamps) => {
        if (stamps === null || !(await this.#rest(opened.trainer)) || this.#isClosed) return;
        void this.drop();
        isLeft = true;
        const timer = setTimeout(() => this.drop(), this.#restsFor).unref();
        this.#resting = { opened, objective, device, folder, stamps, timer };
      },
    };
  }

  async #rest({ here }: Trainer): Promise<boolean> {
    if (this.#restsFor === 0 || !here) return false;
    // Else whoever is next reads what is on the disk.
    return here.rest().catch(() => false);
  }
}

/** Changes with any of the files of a folder. Null: they cannot be looked at. */
export function stampsOf(folder: string): string | null {
  const stampOf = (name: string) => `${name} ${fileStamp(statSync(join(folder, name), { bigint: true })).text}`;
  try {
    return readdirSync(folder).sort().map(stampOf).join("\n");
  } catch {
    return null;
  }
}

async function restoreTrainer(device: DeviceModel, state: AdapterState, objective: Objective): Promise<Trainer> {
  const { spec, values: tensors, optimizer, kept = null } = state;
  const withMoments = optimizer?.objective === objective;
  const trainer = await device.trainAdapter(spec, { seed: ADAPTER_SEED, tensors, kept, withMoments });
  // Moments that were kept elsewhere stay there, also when training goes on here.
  if (withMoments && !trainer.elsewhere && optimizer.moment1.size > 0) {
    await trainer.write("moment1", optimizer.moment1);
    await trainer.write("moment2", optimizer.moment2, optimizer.steps);
  }
  return trainer;
}
