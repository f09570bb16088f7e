import type { Artifact, ArtifactCreateParams } from "./artifacts.js";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionCreateParams,
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionCreateParamsStreaming,
} from "./chat.js";
import type { EmbeddingCreateParams, EmbeddingList } from "./embeddings.js";
import type { HealthReport, SystemReport } from "./health.js";
import type { LoraAdapterLoadParams, LoraAdapterUnloadParams } from "./loraAdapters.js";
import type {
  ApiKey,
  ApiKeyCreated,
  Checkpoint,
  CheckpointsDeleted,
  MetricRow,
  Model,
  ModelCreateParams,
  ModelDeleted,
  ModelEntryList,
  ModelExported,
  ModelExportParams,
  ModelImportParams,
} from "./models.js";
import type { Page } from "./page.js";
import type { ModelPublished, ModelPublishParams } from "./publish.js";
import type { JobQuery, MetricQuery, OrderedPageQuery, PageQuery, TrajectoryQuery } from "./queries.js";
import type {
  ModelResponse,
  ResponseCreateParams,
  ResponseCreateParamsNonStreaming,
  ResponseCreateParamsStreaming,
  ResponseDeleted,
  ResponseItem,
  ResponseItemQuery,
  ResponseQuery,
  ResponseQueryNonStreaming,
  ResponseQueryStreaming,
  ResponseStreamEvent,
} from "./responses.js";
import type {
  TextCompletion,
  TextCompletionCreateParams,
  TextCompletionCreateParamsNonStreaming,
  TextCompletionCreateParamsStreaming,
} from "./textCompletions.js";
import type {
  JobEstimate,
  SftTrainingJobCreateParams,
  TrainingEvent,
  TrainingJob,
  TrainingJobCreated,
  TrainingJobCreateParams,
  TrainingSessionInfo,
} from "./training.js";
import type { LoggedGroup, LogParams, LogResult } from "./trajectories.js";

/** What every call takes beside its parameters. */
export interface RequestOptions {
  /** The call rejects with `signal.reason`. */
  signal?: AbortSignal;
}

/** Awaited: one page. Iterated over: the items of this page and of all after it. */
export type PageRequest<T> = PromiseLike<Page<T>> & AsyncIterable<T>;

/** Completions of conversations. */
export interface ChatCompletionsResource {
  create(params: ChatCompletionCreateParamsNonStreaming, options?: RequestOptions): Promise<ChatCompletion>;
  /** Leaving the loop over the chunks aborts the request. */
  create(
    params: ChatCompletionCreateParamsStreaming,
    options?: RequestOptions,
  ): Promise<AsyncIterable<ChatCompletionChunk>>;
  create(
    params: ChatCompletionCreateParams,
    options?: RequestOptions,
  ): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>>;
}

/** Adapters by name, as vLLM has them: models of the project "lora" in the caller's entity. */
export interface LoraAdaptersResource {
  /** Loads a PEFT adapter, or replaces one in place. NotFoundError for a folder that the caller may not read. */
  load(params: LoraAdapterLoadParams, options?: RequestOptions): Promise<void>;
  /** Removes it. NotFoundError when there is none of the name. */
  unload(params: LoraAdapterUnloadParams, options?: RequestOptions): Promise<void>;
}

/** Completions of plain prompts. */
export interface TextCompletionsResource {
  create(params: TextCompletionCreateParamsNonStreaming, options?: RequestOptions): Promise<TextCompletion>;
  create(params: TextCompletionCreateParamsStreaming, options?: RequestOptions): Promise<AsyncIterable<TextCompletion>>;
  /** Leaving the loop over the chunks aborts the request. */
  create(
    params: TextCompletionCreateParams,
    options?: RequestOptions,
  ): Promise<TextCompletion | AsyncIterable<TextCompletion>>;
}

/** Texts to vectors. */
export interface EmbeddingsResource {
  /** The vectors of texts. ValidationError for a model that makes none. */
  create(params: EmbeddingCreateParams, options?: RequestOptions): Promise<EmbeddingList>;
}

/** Responses: chat in items, kept on the engine's side where that is wanted. */
export interface ResponsesResource {
  create(params: ResponseCreateParamsStreaming, options?: RequestOptions): Promise<AsyncIterable<ResponseStreamEvent>>;
  create(params: ResponseCreateParamsNonStreaming, options?: RequestOptions): Promise<ModelResponse>;
  /** Leaving the loop over the events aborts the request, unless it is made in the background. */
  create(
    params: ResponseCreateParams,
    options?: RequestOptions,
  ): Promise<ModelResponse | AsyncIterable<ResponseStreamEvent>>;
  retrieve(
    responseId: string,
    query: ResponseQueryStreaming,
    options?: RequestOptions,
  ): Promise<AsyncIterable<ResponseStreamEvent>>;
  retrieve(responseId: string, query?: ResponseQueryNonStreaming, options?: RequestOptions): Promise<ModelResponse>;
  /** A response that was kept, as it is now. NotFoundError when it is none of the caller's. */
  retrieve(
    responseId: string,
    query?: ResponseQuery,
    options?: RequestOptions,
  ): Promise<ModelResponse | AsyncIterable<ResponseStreamEvent>>;
  /** Ends and forgets it. */
  delete(responseId: string, options?: RequestOptions): Promise<ResponseDeleted>;
  /** Ends a response made in the background. BadRequestError for others. */
  cancel(responseId: string, options?: RequestOptions): Promise<ModelResponse>;
  /** What responses were asked with. */
  readonly inputItems: ResponseInputItemsResource;
}

/** What responses were asked with; the input of those before is with those. */
export interface ResponseInputItemsResource {
  /** The items of a response, the last first unless `order` is "asc". */
  list(responseId: string, query?: ResponseItemQuery, options?: RequestOptions): PageRequest<ResponseItem>;
}

/** Models that are trained. An id that is unknown, or not the caller's, is a NotFoundError. */
export interface ModelsResource {
  /** Registers a model; its untrained adapter is step 0. ConflictError when the name is taken. */
  create(params: ModelCreateParams, options?: RequestOptions): Promise<Model>;
  /** Registers a model whose step 0 is an existing PEFT adapter, a folder on the machine of the engine. */
  import(params: ModelImportParams, options?: RequestOptions): Promise<Model>;
  /** Everything that completions can be asked of: base models and trained ones. */
  list(options?: RequestOptions): Promise<ModelEntryList>;
  /** The model of an id. */
  retrieve(modelId: string, options?: RequestOptions): Promise<Model>;
  /** Cancels its jobs and removes its checkpoints. */
  delete(modelId: string, options?: RequestOptions): Promise<ModelDeleted>;
  /** Writes a checkpoint as a folder for other programs. ValidationError at `path` when something is there. */
  export(modelId: string, params: ModelExportParams, options?: RequestOptions): Promise<ModelExported>;
  /**
   * Has a server of another engine serve a checkpoint, as `project/name:stepN` and, once its greedy tokens agree with this
   * engine's, as `project/name`. RemoteServerError when the server cannot be reached, refuses, or does not agree.
   */
  publish(modelId: string, params: ModelPublishParams, options?: RequestOptions): Promise<ModelPublished>;
  /**
   * Makes an earlier step the latest again, as a new checkpoint with its weights and its optimizer's state; all others stay.
   * Waits for the model's jobs. The latest step itself is answered as it is.
   */
  rollback(modelId: string, step: number, options?: RequestOptions): Promise<Checkpoint>;
  /** Stores trajectories and attaches their metrics to the latest checkpoint, or to that of `step`. */
  log(modelId: string, params: LogParams, options?: RequestOptions): Promise<LogResult>;
  /** What was logged and trained on, in that order. */
  trajectories(modelId: string, query?: TrajectoryQuery, options?: RequestOptions): PageRequest<LoggedGroup>;
  /** The history of its metrics, of deleted steps too: what was logged, what jobs reported, batches of supervised jobs. */
  metrics(modelId: string, query?: MetricQuery, options?: RequestOptions): PageRequest<MetricRow>;
}

/** The steps of models. */
export interface CheckpointsResource {
  /** Checkpoints by step. */
  list(modelId: string, query?: OrderedPageQuery, options?: RequestOptions): PageRequest<Checkpoint>;
  /** Deletes those of `steps`. Unknown ones are reported; the latest step among them is an error and nothing is deleted. */
  delete(modelId: string, params: { steps: number[] }, options?: RequestOptions): Promise<CheckpointsDeleted>;
}

/** Reinforcement learning jobs, and what jobs of either kind have in common. */
export interface TrainingJobsResource {
  /** Answers when the job is queued, with its id. */
  create(params: TrainingJobCreateParams, options?: RequestOptions): Promise<TrainingJobCreated>;
  /** What such a job would take: memory, and unless it is over in a moment, time. Nothing is trained. */
  estimate(params: TrainingJobCreateParams, options?: RequestOptions): Promise<JobEstimate>;
  /** Jobs of either kind. */
  list(query?: JobQuery, options?: RequestOptions): PageRequest<TrainingJob>;
  /** The job as it is now. NotFoundError for an unknown id. */
  retrieve(jobId: string, options?: RequestOptions): Promise<TrainingJob>;
  /** Awaited: a page of what has happened. Iterated over: every event as it happens, to the last. */
  events(jobId: string, query?: PageQuery, options?: RequestOptions): PageRequest<TrainingEvent>;
  /** The job once it has succeeded. TrainingFailedError when it failed or was cancelled. */
  wait(jobId: string, options?: RequestOptions): Promise<TrainingJob>;
  /** The job as it is afterwards; one that has ended stays as it is. */
  cancel(jobId: string, options?: RequestOptions): Promise<TrainingJob>;
}

/** Supervised fine-tuning jobs. */
export interface SftTrainingJobsResource {
  /** Answers when the job is queued, with its id. ValidationError at `training_data_url` for data that cannot be read. */
  create(params: SftTrainingJobCreateParams, options?: RequestOptions): Promise<TrainingJobCreated>;
  /** What such a job would take: memory, and unless it is over in a moment, time. Nothing is trained. */
  estimate(params: SftTrainingJobCreateParams, options?: RequestOptions): Promise<JobEstimate>;
}

/** Sessions that hold models. */
export interface TrainingSessionsResource {
  /** Those that are open in the process of the engine; who waits for one is told its id in the engine's log. */
  list(options?: RequestOptions): Promise<TrainingSessionInfo[]>;
  /** Closes a session that somebody else opened: its calls reject with ClosedError, what it did not save is gone. */
  close(sessionId: string, options?: RequestOptions): Promise<void>;
}

/** Files that jobs are told by URL. */
export interface ArtifactsResource {
  /** Stores the files as the next version of the name and answers with its URL. */
  create(params: ArtifactCreateParams, options?: RequestOptions): Promise<Artifact>;
}

/** Models that others are trained from. */
export interface BaseModelsResource {
  /** Ids of the base models that can be trained. */
  list(options?: RequestOptions): Promise<string[]>;
  /**
   * Removes weights that a session saved. ConflictError while models made on them exist, or a session that may go on from them
   * is open. Only the owner may.
   */
  delete(id: string, options?: RequestOptions): Promise<void>;
}

/** Keys for others than the owner; only the owner may use this. */
export interface KeysResource {
  /** Makes a key for `entity` (default: the owner's), with a `name` to tell it by (default: none). It is shown here only. */
  create(params?: { entity?: string | null; name?: string | null }, options?: RequestOptions): Promise<ApiKeyCreated>;
  /** Every key that was made, revoked ones too. */
  list(options?: RequestOptions): Promise<ApiKey[]>;
  /** Requests with the key fail from now on. NotFoundError for an unknown id. */
  revoke(keyId: string, options?: RequestOptions): Promise<void>;
}

/** What an engine in this process and one behind an address have in common. */
export interface AnnealClient {
  /** Chat: its `completions`. */
  readonly chat: { readonly completions: ChatCompletionsResource };
  /** Chat in items, kept on the engine's side where that is wanted. */
  readonly responses: ResponsesResource;
  /** Plain prompts gone on with: no messages, no template. */
  readonly completions: TextCompletionsResource;
  /** Texts to vectors, by models made for it. */
  readonly embeddings: EmbeddingsResource;
  /** Models that are trained. */
  readonly models: ModelsResource;
  /** Adapters by name, as vLLM loads and unloads them. */
  readonly loraAdapters: LoraAdaptersResource;
  /** The steps of those models. */
  readonly checkpoints: CheckpointsResource;
  /** Reinforcement learning jobs, and what jobs of either kind have in common. */
  readonly trainingJobs: TrainingJobsResource;
  /** Supervised fine-tuning jobs. */
  readonly sftTrainingJobs: SftTrainingJobsResource;
  /** Sessions that hold models. */
  readonly trainingSessions: TrainingSessionsResource;
  /** Files that jobs are told by URL. */
  readonly artifacts: ArtifactsResource;
  /** Models that others are trained from. */
  readonly baseModels: BaseModelsResource;
  /** API keys for others than the owner. */
  readonly keys: KeysResource;
  /** The key that requests made with `fetch` carry. */
  readonly apiKey: string;
  /** The HTTP face: for in-process engines without a port. */
  readonly fetch: typeof fetch;
  /** That requests are taken; where they are not, it rejects. */
  health(options?: RequestOptions): Promise<HealthReport>;
  /** Whether what requests need works, check by check. */
  systemCheck(options?: RequestOptions): Promise<SystemReport>;
  /** Ends what is in flight. A connected engine goes on for others. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
