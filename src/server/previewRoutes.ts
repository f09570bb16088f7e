import type { ExactFields } from "../json.js";
import * as artifacts from "../schemas/artifacts.js";
import { CONVERSATION_NUMBERS, TRAJECTORY_NUMBERS } from "../schemas/exactNumbers.js";
import * as jobs from "../schemas/jobs.js";
import * as models from "../schemas/models.js";
import { metricQuery, nothing, orderedPageQuery, page, pageQuery, trajectoryQuery } from "../schemas/pages.js";
import * as trajectories from "../schemas/trajectories.js";
import type { ModelCreateParams, ModelExportParams, ModelImportParams } from "../types/models.js";
import type { JobQuery, MetricQuery, OrderedPageQuery, TrajectoryQuery } from "../types/queries.js";
import type { SftTrainingJobCreateParams, TrainingJobCreateParams } from "../types/training.js";
import type { LogParams } from "../types/trajectories.js";
import { jsonTextResponse } from "./jsonResponse.js";
import type { Route } from "./route.js";

// Bodies go to the engine as they came: it checks them, whoever calls it.

const GROUP_NUMBERS: ExactFields = { trajectory_groups: { trajectories: TRAJECTORY_NUMBERS } };
const DATA_NUMBERS: ExactFields = { data: CONVERSATION_NUMBERS };

const modelRoutes: Route[] = [
  {
    method: "POST",
    path: "/v1/preview/models",
    summary: "Create a model",
    body: models.modelCreate,
    response: models.model,
    handle: async ({ as, json, signal }) => as.models.create((await json()) as ModelCreateParams, { signal }),
  },
  {
    method: "POST",
    path: "/v1/preview/models/import",
    summary: "Create a model from a PEFT adapter folder on the server",
    body: models.modelImport,
    response: models.model,
    handle: async ({ as, json, signal }) => as.models.import((await json()) as ModelImportParams, { signal }),
  },
  {
    method: "GET",
    path: "/v1/preview/models/:model_id",
    summary: "Get a model",
    response: models.model,
    handle: ({ as, params }) => as.models.retrieve(params.model_id!),
  },
  {
    method: "DELETE",
    path: "/v1/preview/models/:model_id",
    summary: "Delete a model, its jobs and its checkpoints",
    response: models.modelDeleted,
    handle: ({ as, params }) => as.models.delete(params.model_id!),
  },
  {
    method: "GET",
    path: "/v1/preview/models/:model_id/checkpoints",
    summary: "List a model's checkpoints",
    query: orderedPageQuery,
    response: page(models.checkpoint),
    handle: async ({ as, params, query }) => as.checkpoints.list(params.model_id!, query as OrderedPageQuery),
  },
  {
    method: "DELETE",
    path: "/v1/preview/models/:model_id/checkpoints",
    summary: "Delete checkpoints by step",
    body: models.checkpointsDelete,
    response: models.checkpointsDeleted,
    handle: async ({ as, params, json }) =>
      as.checkpoints.delete(params.model_id!, (await json()) as { steps: number[] }),
  },
  {
    method: "POST",
    path: "/v1/preview/models/:model_id/export",
    summary: "Write a checkpoint as a folder on the server, as an adapter or merged with its base model (owner only)",
    body: models.modelExport,
    response: models.modelExported,
    handle: async ({ as, params, json, signal }) =>
      as.models.export(params.model_id!, (await json()) as ModelExportParams, { signal }),
  },
  {
    method: "POST",
    path: "/v1/preview/models/:model_id/rollback",
    summary: "Make an earlier step the latest again, as a new checkpoint",
    body: models.modelRollback,
    response: models.checkpoint,
    handle: async ({ as, params, json, signal }) =>
      as.models.rollback(params.model_id!, ((await json()) as { step: number } | null)?.step as number, { signal }),
  },
  {
    method: "POST",
    path: "/v1/preview/models/:model_id/log",
    summary: "Log trajectories and compute their metrics",
    body: trajectories.trajectoryLog,
    response: trajectories.logResult,
    async handle({ as, params, jsonOrBytes, signal }) {
      const body = await jsonOrBytes(GROUP_NUMBERS);
      if ("bytes" in body) return as.models.logFromBody(params.model_id!, body.bytes, { signal });
      return as.models.log(params.model_id!, body.json as LogParams);
    },
  },
  {
    method: "GET",
    path: "/v1/preview/models/:model_id/trajectories",
    summary: "List the trajectory groups that were logged or trained on",
    query: trajectoryQuery,
    response: page(trajectories.loggedGroup),
    handle: async ({ as, params, query }) =>
      jsonTextResponse(await as.models.trajectoriesText(params.model_id!, query as TrajectoryQuery)),
  },
  {
    method: "GET",
    path: "/v1/preview/models/:model_id/metrics",
    summary: "List the metrics that were recorded of a model, in time",
    query: metricQuery,
    response: page(models.metricRow),
    handle: async ({ as, params, query }) => as.models.metrics(params.model_id!, query as MetricQuery),
  },
  {
    method: "GET",
    path: "/v1/preview/base-models",
    summary: "List the ids of the base models that can be trained",
    response: models.baseModelIds,
    handle: ({ as }) => as.baseModels.list(),
  },
  {
    method: "DELETE",
    path: "/v1/preview/base-models/:base_model",
    summary: "Delete weights that a training session saved as a base model (owner only)",
    response: nothing,
    handle: async ({ as, params }) => {
      await as.baseModels.delete(params.base_model!);
      return {};
    },
  },
];

const jobRoutes: Route[] = [
  {
    method: "POST",
    path: "/v1/preview/training-jobs",
    summary: "Create a reinforcement learning job",
    body: jobs.trainingJobCreate,
    response: jobs.trainingJobCreated,
    async handle({ as, jsonOrBytes, signal }) {
      const body = await jsonOrBytes(GROUP_NUMBERS);
      if ("bytes" in body) return as.trainingJobs.createFromBody(body.bytes, { signal });
      return as.trainingJobs.create(body.json as TrainingJobCreateParams);
    },
  },
  {
    method: "POST",
    path: "/v1/preview/sft-training-jobs",
    summary: "Create a supervised fine-tuning job",
    body: jobs.sftTrainingJobCreate,
    response: jobs.trainingJobCreated,
    handle: async ({ as, json }) =>
      as.sftTrainingJobs.create((await json(DATA_NUMBERS, "large")) as SftTrainingJobCreateParams),
  },
  {
    method: "POST",
    path: "/v1/preview/training-jobs/estimate",
    summary: "Estimate what a reinforcement learning job would take; nothing is trained",
    body: jobs.trainingJobCreate,
    response: jobs.jobEstimate,
    async handle({ as, jsonOrBytes, signal }) {
      const body = await jsonOrBytes(GROUP_NUMBERS);
      if ("bytes" in body) return as.trainingJobs.estimateFromBody(body.bytes, { signal });
      return as.trainingJobs.estimate(body.json as TrainingJobCreateParams, { signal });
    },
  },
  {
    method: "POST",
    path: "/v1/preview/sft-training-jobs/estimate",
    summary: "Estimate what a supervised fine-tuning job would take; nothing is trained",
    body: jobs.sftTrainingJobCreate,
    response: jobs.jobEstimate,
    handle: async ({ as, json, signal }) =>
      as.sftTrainingJobs.estimate((await json(DATA_NUMBERS, "large")) as SftTrainingJobCreateParams, { signal }),
  },
  {
    method: "GET",
    path: "/v1/preview/training-jobs",
    summary: "List training jobs of either kind",
    query: jobs.jobQuery,
    response: page(jobs.trainingJob),
    handle: async ({ as, query }) => as.trainingJobs.list(query as JobQuery),
  },
  {
    method: "GET",
    path: "/v1/preview/training-jobs/:training_job_id",
    summary: "Get a training job",
    response: jobs.trainingJob,
    handle: ({ as, params }) => as.trainingJobs.retrieve(params.training_job_id!),
  },
  {
    method: "GET",
    path: "/v1/preview/training-jobs/:training_job_id/events",
    summary: "Get a training job's events",
    query: pageQuery,
    response: page(jobs.trainingEvent),
    handle: async ({ as, params, query }) => as.trainingJobs.events(params.training_job_id!, query),
  },
  {
    method: "POST",
    path: "/v1/preview/training-jobs/:training_job_id/cancel",
    summary: "Cancel a training job",
    response: jobs.trainingJob,
    handle: ({ as, params }) => as.trainingJobs.cancel(params.training_job_id!),
  },
];

const sessionRoutes: Route[] = [
  {
    method: "GET",
    path: "/v1/preview/training-sessions",
    summary: "List the sessions that hold models, in the process of the engine",
    response: jobs.trainingSessions,
    handle: ({ as }) => as.trainingSessions.list(),
  },
  {
    method: "DELETE",
    path: "/v1/preview/training-sessions/:session_id",
    summary: "Close a session that holds a model; what it did not save is gone",
    response: nothing,
    handle: async ({ as, params }) => {
      await as.trainingSessions.close(params.session_id!);
      return {};
    },
  },
];

const artifactRoutes: Route[] = [
  {
    method: "PUT",
    path: "/v1/preview/artifacts/:entity/:project/:name/:file",
    summary: "Put one file of an artifact's next version; the body is its content",
    isUpload: true,
    response: artifacts.artifactFilePut,
    handle: ({ as, params, bytes }) => as.artifacts.put(params, bytes()),
  },
  {
    method: "POST",
    path: "/v1/preview/artifacts/:entity/:project/:name",
    summary: "Make the files put so far a version of the artifact",
    response: artifacts.artifact,
    handle: ({ as, params }) => as.artifacts.commit(params),
  },
];

const keyRoutes: Route[] = [
  {
    method: "GET",
    path: "/v1/preview/caller",
    summary: "Whose key the request carries",
    response: models.caller,
    handle: async ({ as }) => as.caller,
  },
  {
    method: "POST",
    path: "/v1/preview/keys",
    summary: "Create an API key (owner only)",
    body: models.keyCreate,
    response: models.apiKeyCreated,
    handle: async ({ as, json }) => as.keys.create((await json()) as { entity?: string; name?: string }),
  },
  {
    method: "GET",
    path: "/v1/preview/keys",
    summary: "List API keys (owner only)",
    response: models.apiKeys,
    handle: ({ as }) => as.keys.list(),
  },
  {
    method: "DELETE",
    path: "/v1/preview/keys/:key_id",
    summary: "Revoke an API key (owner only)",
    response: nothing,
    handle: async ({ as, params }) => {
      await as.keys.revoke(params.key_id!);
      return {};
    },
  },
];

export const previewRoutes: readonly Route[] = [
  ...modelRoutes,
  ...jobRoutes,
  ...sessionRoutes,
  ...artifactRoutes,
  ...keyRoutes,
];
