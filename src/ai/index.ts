// `anneal/ai`: the models of an engine for the `ai` package, in this process and without a port.

import { Engine } from "../anneal.js";
import { NotFoundError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { EngineOptions } from "../types/options.js";
import { defaultHome } from "../userFolder.js";
import { ownOptions } from "./chatParams.js";
import { languageModel } from "./languageModel.js";
import type { AnnealEmbeddingModel, AnnealLanguageModel } from "./specification.js";

export type * from "./specification.js";

/** A provider of the `ai` package; called, it gives a language model. */
export interface AnnealProvider {
  /**
   * `modelId` is a base model, or a trained one: PROJECT/NAME, or any of its spellings, with a step or without. What is not there is
   * an error of the first call.
   */
  (modelId: string): AnnealLanguageModel;
  readonly specificationVersion: "v4";
  /** The same. */
  languageModel(modelId: string): AnnealLanguageModel;
  /** A model that makes vectors of texts. */
  embeddingModel(modelId: string): AnnealEmbeddingModel;
  /** The same by its older name. */
  textEmbeddingModel(modelId: string): AnnealEmbeddingModel;
  /** @throws NotFoundError: there are none */
  imageModel(modelId: string): never;
  /** The engine, opened when it is first needed. */
  engine(): Promise<AnnealClient>;
}

type Source = AnnealClient | EngineOptions | (() => AnnealClient | Promise<AnnealClient>);

/**
 * The models of an engine: one that is open (or connected to), or what opens one when it is first needed. Who opens an engine
 * closes it; one that is opened here ends with the process, or by `(await provider.engine()).close()`.
 */
export function createAnneal(source: Source = {}): AnnealProvider {
  let opened: Promise<AnnealClient> | undefined;
  const engine = (): Promise<AnnealClient> => {
    opened ??= open(source).catch((error: unknown) => {
      // The next call tries again.
      opened = undefined;
      throw error;
    });
    return opened;
  };
  const resolve = (modelId: string) => async () => {
    const found = await engine();
    return { engine: found, model: await servedName(found, modelId) };
  };
  const language = (modelId: string) => languageModel(modelId, resolve(modelId));
  const embedding = (modelId: string) => embeddingModel(modelId, resolve(modelId));
  return Object.assign(language, {
    specificationVersion: "v4" as const,
    languageModel: language,
    embeddingModel: embedding,
    textEmbeddingModel: embedding,
    imageModel(modelId: string): never {
      throw new NotFoundError(`there is no model "${modelId}" that makes images`, {
        code: "model_not_found",
        param: "model",
      });
    },
    engine,
  });
}

/** The models of the home that the command uses: `ANNEAL_HOME`, or `~/.anneal`. */
export const anneal: AnnealProvider = createAnneal(() =>
  Engine.open({ home: process.env.ANNEAL_HOME || defaultHome() }),
);

async function open(source: Source): Promise<AnnealClient> {
  if (typeof source === "function") return source();
  return "chat" in source ? source : Engine.open(source);
}

/** `PROJECT/NAME` with the entity that it is of; what else there is, as it is. */
async function servedName(engine: AnnealClient, modelId: string): Promise<string> {
  if (modelId.split("/").length !== 2) return modelId;
  const { data } = await engine.models.list();
  if (data.some(({ id }) => id === modelId)) return modelId;
  const [, wanted = "", step = ""] = /^(.*?)(:(?:step\d+|latest))?$/.exec(modelId)!;
  const named = data.filter(
    ({ root, model_id }) => model_id !== null && root.replace(/:step\d+$/, "").endsWith(`/${wanted}`),
  );
  if (named.length === 1) return `${named[0]!.id}${step}`;
  const problem = named.length === 0 ? "there is no model" : "several entities have a model";
  throw new NotFoundError(`${problem} "${modelId}"`, { code: "model_not_found", param: "model" });
}

function embeddingModel(
  modelId: string,
  resolve: () => Promise<{ engine: Pick<AnnealClient, "embeddings">; model: string }>,
): AnnealEmbeddingModel {
  return {
    specificationVersion: "v4",
    provider: "anneal",
    modelId,
    maxEmbeddingsPerCall: 2048,
    supportsParallelCalls: true,
    async doEmbed({ values, dimensions, abortSignal, providerOptions }) {
      const { engine, model } = await resolve();
      const { data, usage } = await engine.embeddings.create(
        {
          model,
          input: [...values],
          dimensions,
          ...ownOptions(providerOptions, ["model", "input", "encoding_format"]),
        },
        { signal: abortSignal },
      );
      return {
        embeddings: data.map(({ embedding }) => embedding as number[]),
        usage: { tokens: usage.total_tokens },
        warnings: [],
      };
    },
  };
}
