import type { ChatCompletion } from "../../types/chat.js";
import type { Model } from "../../types/models.js";
import type { SessionOptions, TrainingSession } from "../../types/trainingSession.js";
import { createChatCompletion } from "../chat/createChatCompletion.js";
import { chatHost } from "../chat/host.js";
import { accessModel, type View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import { servedName } from "../core/modelNames.js";

/** The four verbs, in an application's hands. */
export class Training {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  /** Opens a model's latest checkpoint for training; holds the model's place in the job queue until it is closed. */
  async open(model: Model | string, options?: SessionOptions): Promise<TrainingSession> {
    const record = accessModel(this.#core.store, this.#view.caller, typeof model === "string" ? model : model?.id);
    const base = this.#core.baseOf(record);
    const { trainingHost, runner } = this.#core;
    const { openTrainingSession } = await import("../../training/trainingSession.js");
    return openTrainingSession(
      trainingHost,
      runner,
      record.id,
      async (adapter, params, signal) => {
        const { project, name, entity } = record;
        const step = this.#core.store.checkpoints.latest(record.id)?.step ?? 0;
        const trained = { modelId: record.id, name, entity, project, step, servedName: servedName(record) };
        const host = {
          ...chatHost(this.#core),
          // The session holds the version: there is nothing to release.
          resolve: async () => ({ base, trained, adapter, release: () => undefined }),
        };
        const completion = await createChatCompletion(host, { ...params, stream: false }, { ...this.#view, signal });
        return completion as ChatCompletion;
      },
      options,
    );
  }
}
