import { sftTrainingJobCreate } from "../schemas/jobs.js";
import { validateInTurns } from "../schemas/validate.js";
import { resolveTrainingData, trainingDataName } from "../training/dataLocation.js";
import { writeJobRequest } from "../training/jobRequest.js";
import type { RequestOptions, SftTrainingJobsResource } from "../types/client.js";
import type { SftTrainingJobCreateParams, TrainingJobCreated } from "../types/training.js";
import { accessModel } from "./access.js";
import { checkEntity, type View } from "./caller.js";
import type { EngineCore } from "./core.js";
import { readerOf } from "./fileRights.js";
import { queueJob } from "./queueJob.js";

/** Supervised jobs; their lives are followed through the other jobs' resource. */
export class SftTrainingJobs implements SftTrainingJobsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  async create(params: SftTrainingJobCreateParams, options?: RequestOptions): Promise<TrainingJobCreated> {
    options?.signal?.throwIfAborted();
    const { store, trainingHost, options: engineOptions } = this.#core;
    const request = await validateInTurns(sftTrainingJobCreate, params, { strict: this.#view.strict });
    const reader = readerOf(this.#view.caller);
    const model = accessModel(store, this.#view.caller, request.model_id);
    const data = resolveTrainingData(request.training_data_url, {
      rights: trainingHost.fileRights(reader),
      allowedHosts: engineOptions.allowedHosts,
      artifactFolder: ({ version, ...key }) => {
        checkEntity(this.#view.caller, key.entity, "training_data_url");
        const found = version === null ? store.artifacts.latest(key) : store.artifacts.find(key, version);
        return found && store.artifacts.folder(found);
      },
    });
    const { checkRatesOfFile, resolveSftSettings } = await import("../training/sftRecipe.js");
    // What can be told now is told now; the job resolves its settings again from the step it starts at.
    const settings = resolveSftSettings(request.config, (store.checkpoints.latest(model.id)?.step ?? 0) + 1);
    const name = trainingDataName(request.training_data_url, data, reader);
    await checkRatesOfFile(settings, data, name);
    options?.signal?.throwIfAborted();
    return queueJob(this.#core, model, "sft", (jobId) =>
      writeJobRequest(store.files, jobId, { kind: "sft", config: request.config ?? {}, data, name }),
    );
  }
}
