import type { ChatCompletion } from "../../types/chat.js";
import type { Model } from "../../types/models.js";
import type { FullSessionOptions, SavedWeights, SessionOptions, TrainingSession } from "../../types/trainingSession.js";
import { createChatCompletion } from "../chat/createChatCompletion.js";
import { chatHost } from "../chat/host.js";
import { accessModel, type View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import { servedName } from "../core/modelNames.js";
import type { ServedModel } from "../core/resolve.js";

/** The four verbs, in an application's hands. */
export class Training {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  /**
   * Opens a model for training, its adapter or all weights; holds the model's place in the job queue until it is closed.
   * @throws InsufficientMemoryError before memory is taken, when all weights are to be trained.
   */
  open(model: Model | string, options: FullSessionOptions): Promise<TrainingSession<SavedWeights>>;
  open(model: Model | string, options?: SessionOptions): Promise<TrainingSession>;
  async open(
    model: Model | string,
    options?: SessionOptions | FullSessionOptions,
  ): Promise<TrainingSession | TrainingSession<SavedWeights>> {
    const core = this.#core;
    const record = accessModel(core.store, this.#view.caller, typeof model === "string" ? model : model?.id);
    const base = core.baseOf(record);
    const complete = this.#complete.bind(this);
    const { openTrainingSession } = await import("../../training/trainingSession.js");
    return openTrainingSession(
      core.trainingHost,
      core.runner,
      record.id,
      {
        complete: (adapter, params, signal) => {
          const { project, name, entity } = record;
          const step = core.store.checkpoints.latest(record.id)?.step ?? 0;
          const trained = { modelId: record.id, name, entity, project, step, servedName: servedName(record) };
          return complete({ base, trained, adapter }, params, signal);
        },
        pinBase: () => core.loaded.pin(base),
        baseOf: () => base,
        async loadCopy(_, folder, use) {
          const copy = await core.savedModels.loadCopy(base, folder, use);
          const served = { base: copy.base, trained: null, adapter: 0 };
          return { ...copy, complete: (params, signal) => complete(served, params, signal) };
        },
        checkName: (name) => core.savedModels.checkName(name),
        serve: (saved) => core.savedModels.serve(saved, base.device.pages),
      },
      // The overloads differ in what is answered only.
      options as SessionOptions,
    );
  }

  /** The session holds what answers: there is nothing to release. */
  async #complete(
    served: Omit<ServedModel, "release">,
    params: Parameters<TrainingSession["sample"]>[0],
    signal: AbortSignal | undefined,
  ): Promise<ChatCompletion> {
    const host = { ...chatHost(this.#core), resolve: async () => ({ ...served, release: () => undefined }) };
    const completion = await createChatCompletion(host, { ...params, stream: false }, { ...this.#view, signal });
    return completion as ChatCompletion;
  }
}
