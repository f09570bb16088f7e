// A server with Tinker's interface as a device: adapters are trained and sampled there, token ids and logprobs cross the wire.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PLAIN_MODULES } from "../../adapterModules.js";
import { BadRequestError, ClosedError } from "../../errors.js";
import { remoteUnexpected } from "../../remoteReplies.js";
import type { CompletingDevice, CompletionSettings, StepOutput } from "../device.js";
import type { ModelSpec } from "../modelSpec.js";
import type { AdapterSpec, KeptState, NamedTensors, Trainer } from "../trainer.js";
import { ArchiveError, unpackAdapter } from "./adapterArchive.js";
import { modulesOf, ServedState } from "./servedState.js";
import { decodeSample } from "./tinkerMessages.js";
import { encoded, unsupported } from "./tinkerRows.js";
import { checkpointPath, type TinkerServer } from "./tinkerServer.js";
import { type AdapterHost, TinkerTrainer } from "./tinkerTrainer.js";

/** What the device needs of the rooms above it. */
export interface TinkerDeviceOptions {
  server: TinkerServer;
  /** The server's name of the base model. */
  baseModel: string;
  config: ModelSpec;
  /** Nothing that it has saved there is of use when it has been closed. */
  isTemporary: boolean;
  readAdapter(folder: string): Promise<{ spec: AdapterSpec; tensors: NamedTensors }>;
}

const BASE: AdapterSpec = {
  rank: 1,
  alpha: 1,
  rslora: false,
  targets: [...PLAIN_MODULES],
};

export class TinkerDevice implements CompletingDevice, AdapterHost {
  readonly config: ModelSpec;
  readonly dtype = "float32";
  readonly device = "tinker";
  readonly kernelSet = "tinker";
  readonly differenceToExact = 0;
  readonly weightOnly = [];
  readonly pageSize = 64;
  readonly pageGroups = [0];
  readonly pages = 0;
  readonly recurrentStates = 0;
  readonly takesGuesses = false;
  readonly bytes = 0;
  readonly server: TinkerServer;
  readonly baseModel: string;
  readonly #readAdapter: TinkerDeviceOptions["readAdapter"];
  /** By name of the state. */
  readonly #states = new Map<string, ServedState>();
  /** States that nobody but trainers and versions knows of: by name, how many of them do. */
  readonly #unrecorded = new Map<string, number>();
  /** Those that were recorded, of a device that is temporary. */
  readonly #recorded = new Set<string>();
  readonly #isTemporary: boolean;
  readonly #versions = new Map<number, ServedState>();
  readonly #base: ServedState;
  #made = 0;
  #isClosed = false;

  constructor({ server, baseModel, config, isTemporary, readAdapter }: TinkerDeviceOptions) {
    this.server = server;
    this.baseModel = baseModel;
    this.config = config;
    this.#readAdapter = readAdapter;
    this.#isTemporary = isTemporary;
    this.#base = new ServedState(server, baseModel, BASE, 0, null);
  }

  openSlot(): number {
    throw unsupported("model", "compute single tokens");
  }

  closeSlot(): void {}

  async step(): Promise<StepOutput> {
    throw unsupported("model", "compute single tokens");
  }

  copyPages(): void {}
  copyRecurrentStates(): void {}

  async complete(
    adapter: number,
    prompt: readonly number[],
    count: number,
    settings: CompletionSettings,
    signal?: AbortSignal,
  ): Promise<{ tokens: number[]; logprobs: number[] }[]> {
    const what = "sample";
    const draw = (source: Record<string, string>) =>
      this.server.run({
        what,
        path: "/asample",
        body: () => ({
          ...source,
          num_samples: count,
          prompt: encoded(prompt),
          sampling_params: {
            max_tokens: settings.maxTokens,
            temperature: settings.temperature,
            top_p: settings.topP,
            top_k: settings.topK > 0 ? settings.topK : -1,
            // What every server's integers hold.
            seed: Number(BigInt.asUintN(31, settings.seed)),
            stop: settings.stopIds,
          },
          type: "sample",
        }),
        decode: decodeSample,
        isRepeatable: true,
        signal,
      });
    const state = this.state(adapter);
    const answer =
      state.kept === null
        ? await draw({ base_model: this.baseModel })
        : await state.use(({ sampler }) => draw({ model_path: sampler! }));
    const sequences = answer.sequences as { tokens: number[]; logprobs: number[] | null }[] | undefined;
    const isWhole = Array.isArray(sequences) && sequences.length === count;
    if (
      !isWhole ||
      sequences.some(({ tokens, logprobs }) => !Array.isArray(tokens) || tokens.length !== logprobs?.length)
    ) {
      throw remoteUnexpected(this.server.url, what, `not ${count} sequences with a logprob for each token`);
    }
    return sequences as { tokens: number[]; logprobs: number[] }[];
  }

  async loadAdapter(spec: AdapterSpec, tensors: NamedTensors, kept: KeptState | null = null): Promise<number> {
    if (kept) return this.serve(spec, kept);
    if (isUntrained(tensors)) return this.#add(this.#base);
    throw noWeights();
  }

  releaseAdapter(version: number): void {
    const state = this.#versions.get(version);
    this.#versions.delete(version);
    if (state && state !== this.#base) this.letGo(state);
  }

  /** They are the server's. */
  adapterBytes(): number {
    return 0;
  }

  adapterTrainingBytes(): number {
    return 0;
  }

  discardState({ name }: KeptState): void {
    this.#recorded.delete(name);
    this.server.discard(name);
  }

  async trainAdapter(
    spec: AdapterSpec,
    { seed, tensors, kept = null, withMoments = false }: Parameters<CompletingDevice["trainAdapter"]>[1],
  ): Promise<Trainer> {
    if (this.#isClosed) throw new ClosedError("the model has been closed");
    const modules = modulesOf(spec);
    const isAll = modules?.attention && modules.feedForward;
    if (!modules || (!isAll && !this.server.dialect.choosesModules)) {
      throw unsupported("adapter.targets", `adapt ${spec.targets.join(", ")} alone`);
    }
    if (kept === null && tensors !== undefined && !isUntrained(tensors)) throw noWeights();
    return new TinkerTrainer(this, spec, Number(BigInt.asUintN(31, seed)), { kept, withMoments });
  }

  async trainWeights(): Promise<Trainer> {
    throw unsupported("weights", "train all weights");
  }

  close(): void {
    this.#isClosed = true;
    for (const state of this.#states.values()) state.close();
    for (const name of [...this.#unrecorded.keys(), ...this.#recorded]) this.server.discard(name);
    this.#base.close();
    this.server.close();
  }

  serve(spec: AdapterSpec, kept: KeptState): number {
    return this.#add(this.hold(spec, kept));
  }

  state(version: number): ServedState {
    if (version === 0) return this.#base;
    const state = this.#versions.get(version);
    if (!state)
      throw new BadRequestError(`there is no version ${version}`, { code: "invalid_argument", param: "adapter" });
    return state;
  }

  hold(spec: AdapterSpec, kept: KeptState): ServedState {
    let state = this.#states.get(kept.name);
    if (!state) {
      state = new ServedState(this.server, this.baseModel, spec, 0, kept);
      this.#states.set(kept.name, state);
      this.#count(kept, 1);
    }
    state.users += 1;
    return state;
  }

  letGo(state: ServedState): void {
    state.users -= 1;
    if (state.users > 0) return;
    this.#states.delete(state.kept!.name);
    state.close();
    this.#count(state.kept!, -1);
  }

  saved({ name }: KeptState): void {
    this.#unrecorded.set(name, 1);
  }

  recorded({ name }: KeptState): void {
    this.#unrecorded.delete(name);
    if (this.#isTemporary) this.#recorded.add(name);
  }

  replaced(kept: KeptState): void {
    this.#count(kept, -1);
  }

  #count(kept: KeptState, more: number): void {
    const users = this.#unrecorded.get(kept.name);
    if (users === undefined) return;
    this.#unrecorded.set(kept.name, users + more);
    if (users + more > 0) return;
    this.#unrecorded.delete(kept.name);
    this.discardState(kept);
  }

  download(state: ServedState): Promise<{ spec: AdapterSpec; tensors: NamedTensors }> {
    return state.use(async ({ sampler }) => {
      const what = "hand out an adapter";
      const path = checkpointPath(sampler!);
      if (path === null) throw remoteUnexpected(this.server.url, what, `"${sampler}", which is no path of one`);
      const { body } = await this.server.download(`${path}/archive`, what);
      const folder = await mkdtemp(join(tmpdir(), "anneal-adapter-"));
      try {
        if (!body) throw new ArchiveError("it is empty");
        await unpackAdapter(body as unknown as AsyncIterable<Uint8Array>, folder);
        return await this.#readAdapter(folder);
      } catch (error) {
        if (error instanceof ArchiveError)
          throw remoteUnexpected(this.server.url, what, `an archive that is none: ${error.message}`);
        throw error;
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
  }

  #add(state: ServedState): number {
    this.#made += 1;
    this.#versions.set(this.#made, state);
    return this.#made;
  }
}

/** Whether an adapter changes nothing: then one made there is as good. */
function isUntrained(tensors: NamedTensors): boolean {
  return [...tensors].every(
    ([name, { data }]) => !name.endsWith("lora_B.weight") || data.every((value) => value === 0),
  );
}

function noWeights(): BadRequestError {
  return new BadRequestError(
    "a server with Tinker's interface takes no weights: it goes on from what it saved itself",
    {
      code: "remote_unsupported",
      param: "model",
      hint: "train models there that were made there; this machine serves and trains those as well",
    },
  );
}
