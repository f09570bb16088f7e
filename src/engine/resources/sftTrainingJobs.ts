import { ValidationError } from "../../errors.js";
import { validateAsync } from "../../schemas/validate.js";
import { moveFile, streamFile } from "../../store/durableFiles.js";
import type { ModelRecord } from "../../store/records.js";
import { resolveTrainingData, trainingDataName } from "../../training/dataLocation.js";
import { dataCopy, type SftJob, storedData, writeJobRequest } from "../../training/jobRequest.js";
import type { RequestOptions, SftTrainingJobsResource } from "../../types/client.js";
import type { JobEstimate, SftTrainingJobCreateParams, TrainingJobCreated } from "../../types/training.js";
import { accessModel, checkEntity, readerOf, type View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import { queueJob } from "./queueJob.js";
import { withTemporaryFile } from "./temporaryFile.js";

/** What messages call the data that a request holds itself. */
const GIVEN_DATA = "the data given";

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
    const { files, home } = this.#core.store;
    return this.#withData(params, options, (model, request, given) =>
      queueJob(this.#core, model, "sft", (jobId) => {
        writeJobRequest(files, jobId, { ...request, data: storedData(home, request.data) });
        if (given !== null) moveFile(given, dataCopy(files, jobId));
      }),
    );
  }

  async estimate(params: SftTrainingJobCreateParams, options?: RequestOptions): Promise<JobEstimate> {
    const { closing, trainingHost, store } = this.#core;
    const signal = AbortSignal.any([closing, ...(options?.signal ? [options.signal] : [])]);
    const { estimateRequest } = await import("../../training/estimateRequest.js");
    const { snapshotData } = await import("../../training/sftData.js");
    return this.#withData(params, options, (model, request, given) => {
      const estimate = (file: string) => estimateRequest(trainingHost, model.id, request, file, signal);
      if (given !== null) return estimate(given);
      const { data, name = data } = request;
      return withTemporaryFile(store.files, (file) => snapshotData(data, name, file, signal), estimate);
    });
  }

  /** `given`: a file with the data that the request holds itself; null: it names its data. */
  async #withData<T>(
    params: SftTrainingJobCreateParams,
    options: RequestOptions | undefined,
    use: (model: ModelRecord, request: SftJob, given: string | null) => T | Promise<T>,
  ): Promise<T> {
    const { store } = this.#core;
    const { sftTrainingJobCreate } = await import("../../schemas/jobs.js");
    const request = await validateAsync(sftTrainingJobCreate, params, { strict: this.#view.strict });
    const model = accessModel(store, this.#view.caller, request.model_id);
    const { checkRateCount, checkRatesOfFile, resolveSftSettings } = await import("../../training/sftRecipe.js");
    // What can be told now is told now; the job resolves its settings again from the step it starts at.
    const settings = resolveSftSettings(request.config, (store.checkpoints.latest(model.id)?.step ?? 0) + 1);
    const config = request.config ?? {};
    if ((request.data == null) === (request.training_data_url == null)) {
      const problem = request.data == null ? "is missing, and so is data" : "cannot be combined with data";
      throw ValidationError.at("training_data_url", problem);
    }
    if (request.data != null) {
      const { conversationLines } = await import("../../training/sftData.js");
      checkRateCount(settings, request.data.length);
      const lines = conversationLines(request.data);
      return withTemporaryFile(
        store.files,
        (file) => streamFile(file, lines),
        async (file) => {
          options?.signal?.throwIfAborted();
          return use(model, { kind: "sft", config, data: GIVEN_DATA }, file);
        },
      );
    }
    const { data, name } = this.#locate(request.training_data_url!);
    await checkRatesOfFile(settings, data, name);
    options?.signal?.throwIfAborted();
    return use(model, { kind: "sft", config, data, name }, null);
  }

  /** The file on this machine that is meant (or the http(s) URL as it is), and what messages call it. */
  #locate(url: string): { data: string; name: string } {
    const { store, trainingHost, options } = this.#core;
    const reader = readerOf(this.#view);
    const data = resolveTrainingData(url, {
      rights: trainingHost.fileRights(reader),
      allowedHosts: options.allowedHosts,
      artifactFolder: ({ version, ...key }) => {
        checkEntity(this.#view.caller, key.entity, "training_data_url");
        const found = version === null ? store.artifacts.latest(key) : store.artifacts.find(key, version);
        return found && store.artifacts.folder(found);
      },
    });
    return { data, name: trainingDataName(url, data, reader) };
  }
}
