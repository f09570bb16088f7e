import type { Caller } from "./engine/core/access.js";
import type { EngineCore } from "./engine/core/core.js";
import type { MetricFamily } from "./engine/core/metricFamilies.js";
import { canonicalHome, closeShared, openShared } from "./engine/core/sharedEngines.js";
import type { Artifacts } from "./engine/resources/artifacts.js";
import type { BaseModels } from "./engine/resources/baseModels.js";
import type { Chat } from "./engine/resources/chat.js";
import type { Checkpoints } from "./engine/resources/checkpoints.js";
import type { Embeddings } from "./engine/resources/embeddings.js";
import type { Keys } from "./engine/resources/keys.js";
import type { LoraAdapters } from "./engine/resources/loraAdapters.js";
import type { Models } from "./engine/resources/models.js";
import type { Resources } from "./engine/resources/resources.js";
import type { Responses } from "./engine/resources/responses.js";
import type { SftTrainingJobs } from "./engine/resources/sftTrainingJobs.js";
import type { TextCompletions } from "./engine/resources/textCompletions.js";
import type { Tokens } from "./engine/resources/tokens.js";
import type { Training } from "./engine/resources/training.js";
import type { TrainingJobs } from "./engine/resources/trainingJobs.js";
import type { TrainingSessions } from "./engine/resources/trainingSessions.js";
import type { ServedEngine } from "./engine/servedEngine.js";
import type { AnnealClient } from "./types/client.js";
import type { HealthReport, SystemReport } from "./types/health.js";
import type { Logger } from "./types/logger.js";
import type { EngineOptions, TinkerOptions } from "./types/options.js";

type Parts = typeof import("./engine/parts.js");
type Handler = (request: Request) => Promise<Response>;

/**
 * Models, training and chat in this process. Everything an application does goes through its resources, which are named
 * and shaped as on the wire.
 */
export class Engine implements AnnealClient, ServedEngine {
  /**
   * Bundlers give a class that speaks of itself another name.
   * @internal
   */
  static readonly name = "Engine";
  /** Chat completions: `chat.completions.create`. */
  declare readonly chat: Chat;
  /** The same as responses: items in, items out, kept where that is wanted. */
  declare readonly responses: Responses;
  /** Plain prompts gone on with: no messages, no template. */
  declare readonly completions: TextCompletions;
  /** Texts to vectors, by models made for it. */
  declare readonly embeddings: Embeddings;
  /** Models that are trained. */
  declare readonly models: Models;
  /** Adapters by name, as vLLM loads and unloads them. */
  declare readonly loraAdapters: LoraAdapters;
  /** The steps of those models. */
  declare readonly checkpoints: Checkpoints;
  /** Reinforcement learning jobs, and what jobs of either kind have in common. */
  declare readonly trainingJobs: TrainingJobs;
  /** Supervised fine-tuning jobs. */
  declare readonly sftTrainingJobs: SftTrainingJobs;
  /** Sessions that hold models. */
  declare readonly trainingSessions: TrainingSessions;
  /** Files that jobs are told by URL, kept in the home. */
  declare readonly artifacts: Artifacts;
  /** Models that others are trained from. */
  declare readonly baseModels: BaseModels;
  /** API keys for others than the owner. */
  declare readonly keys: Keys;
  /** Forward, backward, optimizer step and sampling of a model in the hands of the application. */
  declare readonly training: Training;
  /** Texts to tokens and back. */
  declare readonly tokens: Tokens;
  /** @internal */
  declare readonly caller: Caller;
  /**
   * What the faces of the engine are built on.
   * @internal
   */
  readonly core: EngineCore;
  readonly #parts: Parts;
  readonly #shutDown: () => Promise<void>;
  #handler: Promise<Handler> | undefined;

  private constructor(parts: Parts, core: EngineCore, shutDown: () => Promise<void>) {
    Object.assign(this, new parts.Resources(core, { caller: core.owner, strict: true }));
    this.#parts = parts;
    this.core = core;
    this.#shutDown = shutDown;
  }

  /**
   * Opens a home, or keeps nothing when none is named. Opening a home again in this thread gives the same engine,
   * with the options of the first opening; the last `close` closes it.
   * @throws HomeLockedError when another process, or another thread of this one, has the home open; UnavailableError with
   * code "home_unusable" when its files cannot be made or written; InsufficientMemoryError; ModelFileError; ValidationError
   * for options that do not exist or cannot be.
   */
  static async open(options: EngineOptions = {}): Promise<Engine> {
    // Loaded only here: an application starts at once, whether it opens an engine or not.
    const parts = await import("./engine/parts.js");
    return Engine.#open(parts, parts.resolveOptions(options), null);
  }

  static async #open(
    parts: Parts,
    resolved: ReturnType<Parts["resolveOptions"]>,
    remote: Parameters<Parts["openCore"]>[1] | null,
  ): Promise<Engine> {
    if (resolved.home === null) {
      const { core, shutDown } = await parts.openCore(resolved, remote);
      return new Engine(parts, core, shutDown);
    }
    const home = canonicalHome(resolved.home);
    return openShared(home, async () => {
      const { core, shutDown } = await parts.openCore({ ...resolved, home }, remote);
      return new Engine(parts, core, () => closeShared(home, shutDown));
    });
  }

  /**
   * The same interface to an engine behind an address, such as "http://127.0.0.1:8000". Nothing is sent before it is used.
   * Requests carry `apiKey`.
   * @throws ValidationError for an address that is none, or without a key.
   */
  static async connect(url: string, options: { apiKey: string }): Promise<AnnealClient>;
  /**
   * An engine whose models are computed by a server that speaks Tinker's interface. Everything else is as with `open`: the home,
   * jobs, templates and tokenizers are on this machine, so a program moves by changing the line that opens its engine.
   * @throws RemoteServerError when there is no such server; what `open` throws.
   */
  static async connect(url: string, options: TinkerOptions): Promise<Engine>;
  static async connect(url: string, options?: { apiKey: string } | TinkerOptions): Promise<AnnealClient> {
    if (options && "protocol" in options) {
      const parts = await import("./engine/parts.js");
      const opened = await parts.openRemote(url, options);
      return Engine.#open(parts, opened.options, opened.remote);
    }
    // Faces are loaded when they are asked for: an application that only opens engines does not pay for them.
    const { connect } = await import("./client/connect.js");
    return connect(url, options ?? { apiKey: "" });
  }

  /** The folder of everything durable; null: nothing is kept. */
  get home(): string | null {
    return this.core.store.isTemporary ? null : this.core.store.home;
  }

  /** The owner's key, which requests made with `fetch` or over a port carry. */
  get apiKey(): string {
    return this.core.ownerKey;
  }

  /** Where the engine says what it does: what is said here comes to the logger that was given. */
  get logger(): Logger {
    return this.core.options.logger;
  }

  /**
   * The engine as the bearer of an API key may use it, parameters taken as the wire takes them; null: the key is not valid.
   * @internal
   */
  authenticate(key: string): Resources | null {
    const caller = this.#parts.callerOfKey(this.core, key);
    return caller && new this.#parts.Resources(this.core, { caller, strict: false });
  }

  /** Tells processes that find the home in use where this engine can be reached; null: nowhere. */
  setAddress(address: string | null): void {
    this.core.store.setAddress(address);
  }

  /** Everything that is counted about inference. */
  metrics(): MetricFamily[] {
    return this.#parts.inferenceMetrics(this.core, this.core.owner);
  }

  /** The whole HTTP face without a port: takes what the global `fetch` takes. Requests carry a key, such as `apiKey`. */
  readonly fetch: typeof fetch = async (input, init) => {
    this.#handler ??= import("./server/createServer.js").then(({ createServer }) => createServer(this));
    const handler = await this.#handler;
    const request = new Request(input, init);
    const response = await handler(request);
    request.signal.throwIfAborted();
    return response;
  };

  /** That requests are taken. @throws ClosedError while the engine closes, and afterwards. */
  async health(): Promise<HealthReport> {
    return this.#parts.health(this.core);
  }

  /** Whether what requests need works, check by check; it does not reject when something does not. */
  async systemCheck(): Promise<SystemReport> {
    return this.#parts.systemCheck(this.core);
  }

  /** Ends what is in flight, leaves jobs to be resumed by the next opening, frees memory and files. */
  close(): Promise<void> {
    return this.#shutDown();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
