// What chat completions need of the engine around them.

import { packageVersion } from "../../packageFiles.js";
import type { ToolFormat } from "../../toolFormats.js";
import type { Caller } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import type { GrammarCompiler } from "../core/grammarCache.js";
import type { InferenceMetrics } from "../core/metrics.js";
import { resolveModel, type ServedModel } from "../core/resolve.js";

export interface ChatHost {
  /** Finds and pins a model; throws NotFoundError with code "model_not_found". */
  resolve(name: string | null | undefined, caller: Caller): Promise<ServedModel>;
  /** How tool calls are read from a model's text. */
  readonly toolParser: "auto" | "none" | ToolFormat;
  /** Sampling settings that a request leaves out: those of the model's folder, or none. */
  readonly samplingDefaults: "model" | "neutral";
  readonly grammar: GrammarCompiler;
  readonly metrics: InferenceMetrics;
  /** Of the package. */
  readonly version: string;
}

const VERSION = packageVersion();

export function chatHost(core: EngineCore): ChatHost {
  return {
    resolve: (name, caller) => resolveModel(core, name, caller),
    toolParser: core.options.toolParser,
    samplingDefaults: core.options.samplingDefaults,
    grammar: core.grammars,
    metrics: core.metrics,
    version: VERSION,
  };
}

/** Whose call it is, and how strictly its fields are taken. */
export interface ChatCall {
  caller: Caller;
  /** Unknown fields are an error that names them, as in process; the wire ignores them. */
  strict: boolean;
  /** More output tokens than the context has are as many as it has, where a request must name a number; elsewhere they are refused. */
  lowersMaxTokens?: boolean;
  signal?: AbortSignal;
}

/** The most logprobs that may be asked for per token. */
export const MAX_LOGPROBS = 20;

/** The most tokens that may be named to have their logprobs reported at every position. */
export const MAX_LOGPROB_TOKEN_IDS = 128;
