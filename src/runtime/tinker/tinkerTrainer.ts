// An adapter in training on a server with Tinker's interface. Gradients wait here until the optimizer's step, so that nothing changes
// there before it; a step that the server did not finish is made again from what it kept.

import { BadRequestError, ClosedError } from "../../errors.js";
import { remoteUnexpected } from "../../remoteReplies.js";
import type { AdapterSpec, KeptState, NamedTensors, PassResult, Trainer, TrainPass, TrainRow } from "../trainer.js";
import { type AdapterOrigin, closeAdapter, newName, openAdapter, type ServedState } from "./servedState.js";
import { decodePass, encodePass } from "./tinkerMessages.js";
import { inRequests, readLogprobs, type SlopedRow, toScore, toTrain, unsupported, wholeRows } from "./tinkerRows.js";
import { CLEAN_UP_PATIENCE_MS, isStateLost, type TinkerServer } from "./tinkerServer.js";

/** What a trainer needs of its device. */
export interface AdapterHost {
  readonly server: TinkerServer;
  /** The server's name of the base model. */
  readonly baseModel: string;
  /** A version that completions are drawn from. */
  serve(spec: AdapterSpec, kept: KeptState): number;
  state(version: number): ServedState;
  hold(spec: AdapterSpec, kept: KeptState): ServedState;
  letGo(state: ServedState): void;
  /** A trainer has a state saved that it alone knows of: it goes when neither it nor a version needs it. */
  saved(kept: KeptState): void;
  /** Others know of it from now on: it stays until they have it discarded. */
  recorded(kept: KeptState): void;
  /** The trainer does not go on from it any more. */
  replaced(kept: KeptState): void;
  /** The adapter as it is in the server's archive. @throws RemoteServerError, ModelFileError */
  download(state: ServedState): Promise<{ spec: AdapterSpec; tensors: NamedTensors }>;
}

type OptimizerStep = Parameters<Trainer["optimStep"]>[0];

/** The adapter on the server. */
interface Remote {
  id: string;
  /** Of the next request that changes it. */
  sequence: number;
}

export class TinkerTrainer implements Trainer {
  readonly elsewhere = {
    keep: async () => {
      const kept = await this.#keep();
      this.#device.recorded(kept);
      return kept;
    },
    goBack: (kept: KeptState) => this.#goBack(kept),
  };
  readonly #device: AdapterHost;
  readonly #server: TinkerServer;
  readonly #spec: AdapterSpec;
  readonly #seed: number;
  #steps: number;
  /** Optimizer steps made here, and how many had been made when `#origin` was what the weights are. */
  #changes = 0;
  #origin: AdapterOrigin & { changes: number };
  #remote: Promise<Remote> | null = null;
  /** Rows whose gradient waits for the optimizer's step. */
  #waiting: SlopedRow[] = [];
  /** Nobody knows what the weights are. */
  #broken: unknown = null;
  /** The state as something to sample from, and to read. */
  #held: ServedState | null = null;
  #isClosed = false;

  constructor(device: AdapterHost, spec: AdapterSpec, seed: number, origin: AdapterOrigin) {
    this.#device = device;
    this.#server = device.server;
    this.#spec = spec;
    this.#seed = seed;
    this.#origin = { ...origin, changes: 0 };
    this.#steps = origin.withMoments ? (origin.kept?.steps ?? 0) : 0;
  }

  get steps(): number {
    return this.#steps;
  }

  async forward(
    rows: TrainRow[],
    { entropyGradient, signal }: NonNullable<Parameters<Trainer["forward"]>[1]> = {},
  ): Promise<TrainPass> {
    if (entropyGradient) throw unsupported("entropy_coef", "a gradient by entropies");
    const whole = wholeRows(rows);
    const logprobs = await this.#score(rows, undefined, signal);
    const own = ownValues(rows, logprobs);
    return {
      ...own,
      backward: async (dLogprobs, dEntropies) => {
        if (dEntropies?.some((row) => row.some((value) => value !== 0))) {
          throw unsupported("entropyWeights", "a gradient by entropies");
        }
        for (const [r, row] of whole.entries()) {
          const slopes = new Float32Array(row.trained.length);
          const given = dLogprobs[r]!;
          for (let t = 0; t + 1 < given.length; t++) slopes[row.prefixLength + t] = given[t]!;
          if (slopes.some((slope) => slope !== 0)) this.#waiting.push({ ...row, logprobs: logprobs[r]!, slopes });
        }
      },
      close() {},
    };
  }

  async evaluate(
    rows: TrainRow[],
    { adapter, signal }: { adapter?: number; signal?: AbortSignal } = {},
  ): Promise<PassResult> {
    return ownValues(rows, await this.#score(rows, adapter, signal));
  }

  async optimStep(settings: OptimizerStep): Promise<{ gradNorm: number; isApplied: true }> {
    this.#check();
    if (settings.maxGradNorm > 0 && !this.#server.dialect.clipsGradients) {
      throw unsupported("maxGradNorm", "bound the norm of gradients: the server has no such setting; 0 asks for none");
    }
    const rows = this.#waiting;
    const requests = inRequests(rows).map((request) => toTrain(request, rows.length, this.#server.dialect));
    const { metrics } = await this.#changing(async (remote) => {
      for (const input of requests) {
        const sequence = remote.sequence++;
        await this.#server.run({
          what: "compute a gradient",
          path: "/forward_backward",
          body: () =>
            this.#server.dialect.speaksProtobuf
              ? encodePass(remote.id, sequence, input, false)
              : { model_id: remote.id, forward_backward_input: input, seq_id: sequence },
          decode: decodePass,
          isRepeatable: this.#server.dialect.knowsSequenceNumbers,
        });
      }
      const sequence = remote.sequence++;
      return this.#server.run({
        what: "make an optimizer step",
        path: "/optim_step",
        body: () => ({ model_id: remote.id, adam_params: adam(settings), seq_id: sequence, type: "optim_step" }),
        isRepeatable: this.#server.dialect.knowsSequenceNumbers,
      });
    });
    this.#waiting = [];
    this.#changes += 1;
    this.#steps += 1;
    this.#letGo();
    return { gradNorm: gradNormOf(metrics), isApplied: true };
  }

  async zeroGrad(): Promise<void> {
    this.#waiting = [];
  }

  async publish(): Promise<number> {
    return this.#device.serve(this.#spec, await this.#keep());
  }

  tensors(): readonly { name: string; shape: number[] }[] {
    return [];
  }

  async read(part: "value" | "gradient" | "moment1" | "moment2"): Promise<NamedTensors> {
    if (part !== "value") throw unsupported(part, `hand out an optimizer's ${part}`);
    const kept = await this.#keep();
    const last = this.#held;
    this.#held = this.#device.hold(this.#spec, kept);
    if (last) this.#device.letGo(last);
    const { spec, tensors } = await this.#device.download(this.#held);
    for (const name of ["rank", "alpha", "rslora"] as const) {
      if (spec[name] === this.#spec[name]) continue;
      const message = `adapter.${name} cannot be ${this.#spec[name]}: that of ${this.#server.url}'s adapters is ${spec[name]}`;
      throw new BadRequestError(message, { code: "remote_unsupported", param: `adapter.${name}` });
    }
    return tensors;
  }

  async write(part: "value" | "moment1" | "moment2"): Promise<void> {
    throw unsupported(part, "take weights from elsewhere: it goes on from what it saved itself");
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#letGo();
    this.#setOrigin({ kept: null, withMoments: false });
    this.#remote?.then(
      ({ id }) => closeAdapter(this.#server, id),
      () => undefined,
    );
  }

  #check(): void {
    if (this.#broken) throw this.#broken;
    if (this.#isClosed) throw new ClosedError("the trainer has been closed");
  }

  #letGo(): void {
    if (this.#held) this.#device.letGo(this.#held);
    this.#held = null;
  }

  /** Logprobs of whole rows by the weights in training, or by a version. */
  async #score(rows: readonly TrainRow[], adapter: number | undefined, signal?: AbortSignal): Promise<Float32Array[]> {
    const whole = wholeRows(rows);
    const found: Float32Array[] = [];
    for (const request of inRequests(whole)) {
      const what = "compute logprobs";
      const pass = async (model: string, sequence: number) => {
        const { speaksProtobuf } = this.#server.dialect;
        const input = toScore(request);
        const body = () =>
          speaksProtobuf
            ? encodePass(model, sequence, input, true)
            : { model_id: model, forward_input: input, seq_id: sequence };
        const path = speaksProtobuf ? "/forward_backward" : "/forward";
        const answer = await this.#server.run({ what, path, body, decode: decodePass, isRepeatable: true, signal });
        const logprobs = readLogprobs(request, answer);
        if (!logprobs) throw remoteUnexpected(this.#server.url, what, "none that fit the rows");
        return logprobs;
      };
      const logprobs =
        adapter === undefined
          ? await this.#using((remote) => pass(remote.id, remote.sequence++))
          : await this.#device.state(adapter).use((state) => pass(state.id, state.sequence++));
      found.push(...logprobs);
    }
    return found;
  }

  /** Work that changes nothing. */
  async #using<T>(work: (remote: Remote) => Promise<T>): Promise<T> {
    this.#check();
    const remote = this.#opened();
    try {
      return await work(await remote);
    } catch (error) {
      if (!isStateLost(error)) throw error;
      this.#forget(remote);
      if (!this.#isRestorable) throw this.#breaks(error);
      return work(await this.#opened());
    }
  }

  /** Work that is wholly done, or not at all: after a failure the adapter is made anew from what is kept. */
  async #changing<T>(work: (remote: Remote) => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      const opening = this.#opened();
      const remote = await opening;
      try {
        return await work(remote);
      } catch (error) {
        this.#forget(opening);
        this.#discard(remote.id);
        if (!this.#isRestorable) throw this.#breaks(error);
        if (attempt > 0 || !isStateLost(error)) throw error;
      }
    }
  }

  get #isRestorable(): boolean {
    return this.#origin.changes === this.#changes;
  }

  #breaks(error: unknown): unknown {
    this.#broken = error;
    return error;
  }

  #opened(): Promise<Remote> {
    if (this.#remote) return this.#remote;
    const opening = openAdapter(this.#server, this.#device.baseModel, this.#spec, this.#seed, this.#origin).then(
      (id) => ({
        id,
        sequence: this.#origin.kept ? 2 : 1,
      }),
    );
    this.#remote = opening;
    opening.catch(() => this.#forget(opening));
    return opening;
  }

  #forget(remote: Promise<Remote>): void {
    if (this.#remote === remote) this.#remote = null;
  }

  /** A place on the server keeps the gradient of who had it before, until an optimizer's step. */
  #discard(id: string): void {
    const body = () => ({ model_id: id, adam_params: { learning_rate: 0 }, type: "optim_step" });
    const task = { what: "clear a gradient", path: "/optim_step", body, isRepeatable: true };
    this.#server
      .run({ ...task, patienceMs: CLEAN_UP_PATIENCE_MS })
      .catch(() => undefined)
      .finally(() => closeAdapter(this.#server, id));
  }

  async #keep(): Promise<KeptState> {
    this.#check();
    const { kept, changes } = this.#origin;
    if (kept && changes === this.#changes) return kept;
    const what = "save a state";
    const { path } = await this.#using((remote) => {
      const sequence = remote.sequence++;
      return this.#server.run({
        what,
        path: "/save_weights",
        body: () => ({ model_id: remote.id, path: newName(), seq_id: sequence, type: "save_weights" }),
        isRepeatable: true,
      });
    });
    if (typeof path !== "string") throw remoteUnexpected(this.#server.url, what, "no path of it");
    const state = { name: path, steps: this.#steps };
    this.#device.saved(state);
    this.#setOrigin({ kept: state, withMoments: true });
    return state;
  }

  async #goBack(kept: KeptState): Promise<void> {
    this.#check();
    const remote = this.#remote;
    this.#remote = null;
    remote?.then(
      ({ id }) => closeAdapter(this.#server, id),
      () => undefined,
    );
    this.#letGo();
    this.#waiting = [];
    this.#steps = kept.steps;
    this.#setOrigin({ kept, withMoments: true });
  }

  #setOrigin(origin: AdapterOrigin): void {
    const { kept } = this.#origin;
    this.#origin = { ...origin, changes: this.#changes };
    if (kept) this.#device.replaced(kept);
  }
}

function adam(settings: OptimizerStep): Record<string, number> {
  return {
    learning_rate: settings.learningRate,
    beta1: settings.beta1,
    beta2: settings.beta2,
    eps: settings.eps,
    weight_decay: settings.weightDecay,
    grad_clip_norm: settings.maxGradNorm,
  };
}

/** By whatever name a server tells it; NaN: it does not. */
function gradNormOf(metrics: unknown): number {
  const found = Object.entries((metrics ?? {}) as Record<string, unknown>).find(([name]) => /grad_?norm/i.test(name));
  return typeof found?.[1] === "number" ? found[1] : Number.NaN;
}

function ownValues(rows: readonly TrainRow[], logprobs: readonly Float32Array[]): PassResult {
  const own = rows.map(({ tokens, prefixLength = 0 }, r) => {
    const values = new Float32Array(tokens.length);
    values.set(logprobs[r]!.subarray(prefixLength));
    return values;
  });
  return { logprobs: own, entropies: rows.map(({ tokens }) => new Float32Array(tokens.length).fill(Number.NaN)) };
}
