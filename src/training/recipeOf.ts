// The recipe that a request asks for, whether a job follows it or an estimate only looks at it.

import { errorForOthers, ValidationError } from "../errors.js";
import { loadAdapter } from "./checkpointFiles.js";
import { resolveAdapterFolder } from "./dataLocation.js";
import type { TrainingHost } from "./host.js";
import type { StoredRequest } from "./jobRequest.js";
import type { Recipe } from "./recipe.js";
import { createRlRecipe, type RlContext } from "./rlRecipe.js";
import { createSftRecipe, resolveSftSettings } from "./sftRecipe.js";

export interface RecipeContext extends Pick<RlContext, "base" | "optimizerStep" | "createdAt" | "signal" | "warn"> {
  modelId: string;
  /** The checkpoint it trains from. */
  from: number;
}

/** `data`: the file with the conversations of a supervised job. */
export async function recipeOf(
  host: TrainingHost,
  request: StoredRequest,
  data: string,
  { modelId, from, ...context }: RecipeContext,
): Promise<Recipe> {
  const { base, createdAt, signal } = context;
  if (request.kind === "sft") {
    const settings = resolveSftSettings(request.config, from + 1);
    return createSftRecipe(data, request.name ?? request.data, settings, base, createdAt, signal);
  }
  const { store } = host;
  return createRlRecipe(request.groups, request.config, {
    ...context,
    currentStep: from,
    loadStep: (step) => loadAdapter(base, store.files.checkpointFolder(modelId, step), "checkpoint"),
    loadFolder: (path) => {
      const refuse = (message: string) => ValidationError.at("experimental_config.kl_ref_adapter_path", message);
      const reader = request.reader ?? "owner";
      const folder = resolveAdapterFolder(path, host.fileRights(reader), refuse);
      return loadAdapter(base, folder, "elsewhere").catch((error) => {
        throw reader === "other" ? errorForOthers(error) : error;
      });
    },
  });
}
