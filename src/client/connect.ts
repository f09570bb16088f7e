import { TrainingFailedError, ValidationError } from "../errors.js";
import { makePage, PagePromise } from "../pages.js";
import type { Artifact, ArtifactCreateParams } from "../types/artifacts.js";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionCreateParams } from "../types/chat.js";
import type {
  AnnealClient,
  ChatCompletionsResource,
  PageRequest,
  RequestOptions,
  ResponsesResource,
  TextCompletionsResource,
} from "../types/client.js";
import type { HealthReport, SystemReport } from "../types/health.js";
import type { ApiKey, ApiKeyCreated, Model, ModelDeleted, ModelEntryList } from "../types/models.js";
import type { Page } from "../types/page.js";
import type { ModelResponse, ResponseCreateParams, ResponseQuery } from "../types/responses.js";
import type { TextCompletion, TextCompletionCreateParams } from "../types/textCompletions.js";
import type { JobEstimate, TrainingEvent, TrainingJob, TrainingJobCreated } from "../types/training.js";
import { readChunks, readEvents } from "./chunks.js";
import { type Exchange, HttpConnection, pause } from "./http.js";

const preview = "/v1/preview";

/** Between looks at a job's events: at first, and at most. */
const pollMs = { first: 50, most: 1000 };

/**
 * A part of an address.
 * @throws ValidationError for one that would be no part of it, or lead elsewhere.
 */
function segment(id: string, name: string): string {
  if (typeof id !== "string") throw refusedPart(name, `Invalid input: expected string, received ${typeof id}`);
  if (/^\.{0,2}$/.test(id)) throw refusedPart(name, `"${id}" names nothing`);
  return encodeURIComponent(id.toWellFormed());
}

const refusedPart = (name: string, msg: string) =>
  new ValidationError([{ loc: ["path", name], msg, type: "value_error" }]);

function completions(http: HttpConnection): ChatCompletionsResource {
  async function create(
    params: ChatCompletionCreateParams,
    options?: RequestOptions,
  ): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>> {
    const response = await http.send("/v1/chat/completions", { method: "POST", body: params, signal: options?.signal });
    return params.stream ? readChunks(response) : ((await response.json()) as ChatCompletion);
  }
  return { create: create as ChatCompletionsResource["create"] };
}

function textCompletions(http: HttpConnection): TextCompletionsResource {
  async function create(params: TextCompletionCreateParams, options?: RequestOptions) {
    const response = await http.send("/v1/completions", { method: "POST", body: params, signal: options?.signal });
    return params.stream ? readChunks<TextCompletion>(response) : ((await response.json()) as TextCompletion);
  }
  return { create: create as TextCompletionsResource["create"] };
}

function responses(http: HttpConnection): ResponsesResource {
  const path = (id: string, rest = "") => `/v1/responses/${segment(id, "response_id")}${rest}`;
  async function create(params: ResponseCreateParams, options?: RequestOptions) {
    const response = await http.send("/v1/responses", { method: "POST", body: params, signal: options?.signal });
    return params.stream ? readEvents(response) : ((await response.json()) as ModelResponse);
  }
  async function retrieve(id: string, { stream, starting_after }: ResponseQuery = {}, options?: RequestOptions) {
    const query = { stream: stream == null ? null : String(stream), starting_after };
    const response = await http.send(path(id), { query, ...options });
    return stream ? readEvents(response) : ((await response.json()) as ModelResponse);
  }
  return {
    create: create as ResponsesResource["create"],
    retrieve: retrieve as ResponsesResource["retrieve"],
    delete: async (id, options) => http.json(path(id), { method: "DELETE", ...options }),
    cancel: async (id, options) => http.json(path(id, "/cancel"), { method: "POST", ...options }),
    inputItems: {
      list: (id, query = {}, options) =>
        listed(http, () => path(id, "/input_items"), { query: { ...query }, ...options }),
    },
  };
}

function listed<T extends { id: string }>(
  http: HttpConnection,
  path: () => string,
  exchange: Exchange,
): PagePromise<T> {
  const page = async (after?: string): Promise<Page<T>> => {
    const query = after === undefined ? exchange.query : { ...exchange.query, after };
    const { data, has_more } = await http.json<Page<T>>(path(), { ...exchange, query });
    return makePage(data, has_more, page);
  };
  return new PagePromise(() => page());
}

function trainingJobs(http: HttpConnection): AnnealClient["trainingJobs"] {
  const jobPath = (id: string, rest = "") => `${preview}/training-jobs/${segment(id, "training_job_id")}${rest}`;

  /** Polls; what comes is passed on at once, and polling slows down while nothing comes. */
  async function* follow(id: string, after: string | null, signal?: AbortSignal): AsyncGenerator<TrainingEvent> {
    const path = jobPath(id, "/events");
    let cursor = after;
    for (let delay = pollMs.first; ; ) {
      const page = await http.json<Page<TrainingEvent>>(path, { query: { after: cursor, limit: 100 }, signal });
      for (const event of page.data) {
        yield event;
        if (event.type === "training_ended" || event.type === "training_failed") return;
        cursor = event.id;
      }
      if (page.has_more) continue;
      if (page.data.length > 0) delay = pollMs.first;
      else {
        const { ended_at } = await http.json<TrainingJob>(jobPath(id), { signal });
        // The cursor may be the last event itself, or that event came in between: look once more, then nothing can come.
        if (ended_at !== null) {
          yield* (await http.json<Page<TrainingEvent>>(path, { query: { after: cursor, limit: 100 }, signal })).data;
          return;
        }
      }
      await pause(delay, signal);
      delay = Math.min(delay * 1.5, pollMs.most);
    }
  }

  const jobs: AnnealClient["trainingJobs"] = {
    create: (body, options) =>
      http.json<TrainingJobCreated>(`${preview}/training-jobs`, { method: "POST", body, ...options }),
    estimate: (body, options) =>
      http.json<JobEstimate>(`${preview}/training-jobs/estimate`, { method: "POST", body, ...options }),
    list: (query = {}, options) => listed(http, () => `${preview}/training-jobs`, { query: { ...query }, ...options }),
    retrieve: async (id, options) => http.json<TrainingJob>(jobPath(id), { ...options }),
    events(id, query = {}, options): PageRequest<TrainingEvent> {
      const page = listed<TrainingEvent>(http, () => jobPath(id, "/events"), { query: { ...query }, ...options });
      return {
        // biome-ignore lint/suspicious/noThenProperty: awaited, this is its first page.
        then: page.then.bind(page),
        [Symbol.asyncIterator]: () => follow(id, query.after ?? null, options?.signal),
      };
    },
    async wait(id, options) {
      for await (const event of jobs.events(id, {}, options)) void event;
      const job = await jobs.retrieve(id, options);
      if (job.status === "succeeded") return job;
      throw new TrainingFailedError(job.id, job.error ?? job.status, job.status === "cancelled");
    },
    cancel: async (id, options) => http.json<TrainingJob>(jobPath(id, "/cancel"), { method: "POST", ...options }),
  };
  return jobs;
}

function artifacts(http: HttpConnection, defaultEntity: () => Promise<string>): AnnealClient["artifacts"] {
  return {
    async create(params: ArtifactCreateParams, options) {
      options?.signal?.throwIfAborted();
      // Looked at before the first file goes: what is put of a version that is none would be part of the next one.
      const [{ artifactCreate }, { validate }] = await Promise.all([
        import("../schemas/artifacts.js"),
        import("../schemas/validate.js"),
      ]);
      const { entity, project, name, files } = validate(artifactCreate, params, { strict: true });
      if (Object.keys(files).length === 0) throw ValidationError.at("files", "at least one file is needed");
      const owner = entity ?? (await defaultEntity());
      const path = `${preview}/artifacts/${[owner, project, name].map(encodeURIComponent).join("/")}`;
      for (const [file, body] of Object.entries(files)) {
        await http.send(`${path}/${encodeURIComponent(file)}`, { method: "PUT", body, ...options });
      }
      return http.json<Artifact>(path, { method: "POST", ...options });
    },
  };
}

/** An engine behind an address, with the interface of one in this process. */
export async function connect(url: string, options: { apiKey: string }): Promise<AnnealClient> {
  const http = new HttpConnection(url, options.apiKey);
  const modelPath = (id: string, rest = "") => `${preview}/models/${segment(id, "model_id")}${rest}`;
  const post = <T>(path: string, body: unknown, options?: RequestOptions) =>
    http.json<T>(path, { method: "POST", body, ...options });
  const client: AnnealClient = {
    apiKey: options.apiKey,
    fetch: http.fetch,
    chat: { completions: completions(http) },
    responses: responses(http),
    completions: textCompletions(http),
    loraAdapters: {
      async load(body, options) {
        await http.send("/v1/load_lora_adapter", { method: "POST", body, ...options });
      },
      async unload(body, options) {
        await http.send("/v1/unload_lora_adapter", { method: "POST", body, ...options });
      },
    },
    embeddings: { create: (params, options) => post("/v1/embeddings", params, options) },
    models: {
      create: (params, options) => post<Model>(`${preview}/models`, params, options),
      import: (params, options) => post<Model>(`${preview}/models/import`, params, options),
      list: (options) => http.json<ModelEntryList>("/v1/models", { ...options }),
      retrieve: async (id, options) => http.json<Model>(modelPath(id), { ...options }),
      delete: async (id, options) => http.json<ModelDeleted>(modelPath(id), { method: "DELETE", ...options }),
      export: async (id, params, options) => post(modelPath(id, "/export"), params, options),
      async publish(id, params, options) {
        const { publishCheckpoint } = await import("../remote/publish.js");
        return publishCheckpoint(client, id, params, options);
      },
      rollback: async (id, step, options) => post(modelPath(id, "/rollback"), { step }, options),
      log: async (id, params, options) => post(modelPath(id, "/log"), params, options),
      trajectories: (id, query = {}, options) =>
        listed(http, () => modelPath(id, "/trajectories"), { query: { ...query }, ...options }),
      metrics: (id, query = {}, options) =>
        listed(http, () => modelPath(id, "/metrics"), { query: { ...query }, ...options }),
    },
    checkpoints: {
      list: (id, query = {}, options) =>
        listed(http, () => modelPath(id, "/checkpoints"), { query: { ...query }, ...options }),
      delete: async (id, body, options) =>
        http.json(modelPath(id, "/checkpoints"), { method: "DELETE", body, ...options }),
    },
    trainingJobs: trainingJobs(http),
    sftTrainingJobs: {
      create: (params, options) => post<TrainingJobCreated>(`${preview}/sft-training-jobs`, params, options),
      estimate: (params, options) => post<JobEstimate>(`${preview}/sft-training-jobs/estimate`, params, options),
    },
    trainingSessions: {
      list: (options) => http.json(`${preview}/training-sessions`, { ...options }),
      async close(id, options) {
        await http.send(`${preview}/training-sessions/${segment(id, "session_id")}`, { method: "DELETE", ...options });
      },
    },
    artifacts: artifacts(http, async () => (await http.json<{ entity: string }>(`${preview}/caller`)).entity),
    baseModels: {
      list: (options) => http.json<string[]>(`${preview}/base-models`, { ...options }),
      async delete(id, options) {
        await http.json(`${preview}/base-models/${segment(id, "base_model")}`, { method: "DELETE", ...options });
      },
    },
    keys: {
      create: (params = {}, options) => post<ApiKeyCreated>(`${preview}/keys`, params, options),
      list: (options) => http.json<ApiKey[]>(`${preview}/keys`, { ...options }),
      async revoke(id, options) {
        await http.send(`${preview}/keys/${segment(id, "key_id")}`, { method: "DELETE", ...options });
      },
    },
    health: (options) => http.json<HealthReport>("/v1/health", { ...options }),
    systemCheck: (options) => http.json<SystemReport>("/v1/system-check", { accept: [503], ...options }),
    async close() {},
    async [Symbol.asyncDispose]() {},
  };
  return client;
}
