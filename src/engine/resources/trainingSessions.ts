import * as z from "zod";
import { NotFoundError } from "../../errors.js";
import { uuid } from "../../schemas/names.js";
import { validate } from "../../schemas/validate.js";
import type { OpenSession } from "../../training/jobRunner.js";
import type { RequestOptions, TrainingSessionsResource } from "../../types/client.js";
import type { TrainingSessionInfo } from "../../types/training.js";
import { checkEntity, type View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";

const sessionPath = z.object({ session_id: uuid });

/** The sessions that hold models, seen from outside of the code that opened them. */
export class TrainingSessions implements TrainingSessionsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  async list(options?: RequestOptions): Promise<TrainingSessionInfo[]> {
    options?.signal?.throwIfAborted();
    this.#core.closing.throwIfAborted();
    const { caller } = this.#view;
    const seen = this.#core.runner
      .sessions()
      .filter((session) => caller.owner || this.#entity(session) === caller.entity);
    return seen.map(({ id, modelId, openedAt }) => ({
      id,
      model_id: modelId,
      opened_at: new Date(openedAt).toISOString(),
    }));
  }

  async close(sessionId: string, options?: RequestOptions): Promise<void> {
    options?.signal?.throwIfAborted();
    validate(sessionPath, { session_id: sessionId }, { from: "path" });
    this.#core.closing.throwIfAborted();
    const session = this.#core.runner.sessions().find(({ id }) => id === sessionId.toLowerCase());
    if (!session) throw new NotFoundError(`no training session ${sessionId} is open`, { param: "session_id" });
    checkEntity(this.#view.caller, this.#entity(session) ?? this.#core.owner.entity, "session_id");
    await session.end(`the training session ${session.id} was closed from outside`);
  }

  #entity({ modelId }: OpenSession): string | undefined {
    return this.#core.store.models.get(modelId)?.entity;
  }
}
