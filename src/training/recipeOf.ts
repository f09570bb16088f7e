// The recipe that a request asks for, whether a job follows it or an estimate only looks at it.

import { basename } from "node:path";
import { errorForOthers, ModelFileError, ValidationError } from "../errors.js";
import { loadAdapter } from "./checkpointFiles.js";
import { resolveAdapterFolder } from "./dataLocation.js";
import type { TrainingHost } from "./host.js";
import type { StoredRequest } from "./jobRequest.js";
import type { Recipe } from "./recipe.js";
import { referenceFolder } from "./referenceCheckpoint.js";
import { createRlRecipe, type RlContext } from "./rlRecipe.js";
import { createSftRecipe, resolveSftSettings } from "./sftRecipe.js";

export interface RecipeContext extends Pick<RlContext, "base" | "optimizerStep" | "createdAt" | "signal" | "warn"> {
  modelId: string;
  /** Whose files of its reference are used; null: no job's. */
  jobId: string | null;
  /** The checkpoint it trains from. */
  from: number;
}

/** `data`: the file with the conversations of a supervised job. */
export async function recipeOf(
  host: TrainingHost,
  request: StoredRequest,
  data: string,
  { modelId, jobId, from, ...context }: RecipeContext,
): Promise<Recipe> {
  const { base, createdAt, signal } = context;
  if (request.kind === "sft") {
    const settings = resolveSftSettings(request.config, from + 1);
    return createSftRecipe(data, request.name ?? request.data, settings, base, createdAt, signal);
  }
  const { files } = host.store;
  const checkpoint = (step: number) => files.checkpointFolder(modelId, step);
  const load = (folder: string) => loadAdapter(base, folder, "checkpoint");
  return createRlRecipe(request.groups, request.config, {
    ...context,
    currentStep: from,
    loadStep: (step) => load(checkpoint(step)),
    loadReference: (step) => load(jobId === null ? checkpoint(step) : referenceFolder(files, jobId, step)),
    loadFolder: async (path) => {
      const refuse = (message: string) => ValidationError.at("experimental_config.kl_ref_adapter_path", message);
      const reader = request.reader ?? "owner";
      const folder = resolveAdapterFolder(path, host.fileRights(reader), refuse);
      return loadAdapter(base, folder, "elsewhere").catch((error) => {
        const told = reader === "other" ? errorForOthers(error) : error;
        throw told instanceof ModelFileError ? refuse(`${basename(told.file)}: ${told.reason}`) : told;
      });
    },
  });
}
