// What the four verbs are given, checked before anything is computed.

import { BadRequestError, ValidationError } from "../errors.js";
import { isPolicyLoss, type PolicyLossName, policyLossNames } from "../policyLosses.js";
import { OPTIMIZER_RANGES } from "../schemas/bounds.js";
import { experimentalConfig } from "../schemas/jobs.js";
import { isName } from "../schemas/names.js";
import type { RequestOptions } from "../types/client.js";
import type {
  FullSessionOptions,
  LossChoice,
  OptimStepParams,
  SessionOptions,
  TrainingRow,
} from "../types/trainingSession.js";
import { withoutUndefined } from "../withoutAbsent.js";
import { type Policy, resolvePolicy } from "./policy.js";
import { isTrainable, MAX_TRAINED_TEMPERATURE, MIN_TRAINED_TEMPERATURE } from "./sampledTokens.js";
import type { TokenRow } from "./tokenRow.js";
import type { TrainingBase } from "./trainingBase.js";

const POLICY_SETTINGS = [
  "loss",
  "epsilon",
  "epsilon_high",
  "importance_sampling_level",
  "mask_prob_ratio",
  "max_negative_advantage_importance_sampling_weight",
  "kimi_k2_tau",
  "variant_k2_tau",
  "truncated_importance_sampling",
  "kl_penalty_coef",
  "kl_penalty_source",
  "entropy_coef",
];
type LossName = Extract<LossChoice, { loss: string }>["loss"];
type PolicyChoice = Extract<LossChoice, { loss: PolicyLossName }>;
const SETTINGS: Readonly<Record<LossName, readonly string[]>> = {
  ...(Object.fromEntries(policyLossNames.map((name) => [name, POLICY_SETTINGS])) as Record<PolicyLossName, string[]>),
  cross_entropy: ["loss"],
  dpo: ["loss", "beta"],
};
const OPTIONAL = ["weights", "advantages", "oldLogprobs", "referenceLogprobs", "temperatures"] as const;
/** Beyond it an id would become another one; which ids the model has is the native core's to say. */
const MAX_ID = 2 ** 31 - 1;

const bad = (param: string, message: string) => new BadRequestError(message, { param });

function checkNames(given: object, known: readonly string[], of: string): void {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw bad(unknown, `there is no setting ${unknown} of ${of}; there are ${known.join(", ")}`);
}

/** @throws BadRequestError */
export function checkSessionOptions(options: SessionOptions | FullSessionOptions): void {
  if (typeof options !== "object" || options === null) throw bad("options", "options must be an object");
  checkNames(options, ["objective", "weights", "signal"], "a training session");
  const { objective = "rl", weights = "adapter", signal } = options;
  if (weights !== "adapter" && weights !== "full")
    throw bad("weights", `weights must be adapter or full, got ${String(weights)}`);
  checkSignal(signal);
  if (objective !== "rl" && objective !== "sft")
    throw bad("objective", `objective must be rl or sft, got ${objective}`);
}

function checkSignal(signal: unknown): void {
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw bad("signal", "signal must be an AbortSignal");
}

/** @throws BadRequestError naming what a session has settled: its own weights answer, with a whole completion. */
export function checkSample(params: object, options: RequestOptions): void {
  const { model, stream } = (params ?? {}) as { model?: unknown; stream?: unknown };
  if (model != null) throw bad("model", "model cannot be chosen: a session samples its own weights");
  if (stream != null && stream !== false) throw bad("stream", "a session's samples cannot be streamed");
  checkNames(options, ["signal"], "a sample");
  checkSignal(options.signal);
}

/** @throws BadRequestError naming the loss or setting that is not known, or what the rows lack for it. */
export function checkLoss(choice: LossChoice, rows: readonly TrainingRow[]): void {
  if (typeof choice !== "object" || choice === null)
    throw bad("loss", "a loss must be chosen: { loss } or { weights }");
  if ("weights" in choice) {
    checkNames(choice, ["weights", "entropyWeights"], "a loss given by its weights");
    return;
  }
  if (!Object.hasOwn(SETTINGS, choice.loss)) {
    throw bad("loss", `loss must be one of ${Object.keys(SETTINGS).join(", ")}, got ${JSON.stringify(choice.loss)}`);
  }
  checkNames(choice, SETTINGS[choice.loss], choice.loss);
  if (choice.loss === "dpo") {
    const { beta } = choice;
    if (beta !== undefined && !(Number.isFinite(beta) && beta > 0))
      throw bad("beta", `beta must be above 0, got ${beta}`);
  }
  if (!isPolicyLoss(choice.loss)) return;
  policyOf(choice as PolicyChoice);
  const r = rows.findIndex((row) => row.advantages == null);
  if (r >= 0) throw bad(`rows.${r}.advantages`, `rows.${r}.advantages is missing: ${choice.loss} needs one per token`);
}

/** What a policy loss's settings mean, which are a job's. @throws BadRequestError naming the setting */
export function policyOf({ loss, ...settings }: PolicyChoice): Policy {
  const config = { ...settings, loss_fn: loss };
  const { error } = experimentalConfig.safeParse(config);
  if (error) throw badSetting(error.issues[0]!.path, error.issues[0]!.message);
  try {
    return resolvePolicy(config, 0);
  } catch (error) {
    throw error instanceof ValidationError ? badSetting(error.issues[0]!.loc, error.issues[0]!.msg) : error;
  }
}

function badSetting(path: readonly PropertyKey[], message: string): BadRequestError {
  const name = String(path.at(-1));
  return bad(name, `${name}: ${message}`);
}

/** The settings that were given; those left out or undefined are not among them. @throws BadRequestError */
export function checkedOptimStep(params: OptimStepParams): OptimStepParams {
  const given: Record<string, unknown> = withoutUndefined({ ...params });
  checkNames(given, Object.keys(OPTIMIZER_RANGES), "an optimizer step");
  for (const [name, [min, max]] of Object.entries(OPTIMIZER_RANGES)) {
    if (!Object.hasOwn(given, name) && name !== "learningRate") continue;
    const value = given[name];
    if (typeof value === "number" && value >= min && value <= max) continue;
    throw bad(name, `${name} must be a number from ${min} to ${max}, got ${String(value)}`);
  }
  return given as unknown as OptimStepParams;
}

/** A checkpoint's own metrics. @throws BadRequestError */
export function checkedMetrics(params: object): Record<string, number> {
  if (typeof params !== "object" || params === null) throw bad("params", "what to save must be an object");
  checkNames(params, ["metrics"], "a saved state");
  const metrics = { ...(params as { metrics?: Record<string, number> }).metrics };
  for (const [name, value] of Object.entries(metrics)) {
    if (Number.isFinite(value)) continue;
    throw bad(`metrics.${name}`, `metrics.${name} must be a finite number, got ${String(value)}`);
  }
  return metrics;
}

/** How saved weights are called; undefined: as is usual. @throws BadRequestError */
export function checkedSaving(params: object): { name?: string } {
  if (typeof params !== "object" || params === null) throw bad("params", "what to save must be an object");
  checkNames(params, ["name"], "saved weights");
  const { name } = params as { name?: unknown };
  if (name === undefined) return {};
  const isGood = typeof name === "string" && name.split("/").length <= 2 && name.split("/").every(isName);
  if (isGood) return { name };
  const rule = 'must be NAME or OWNER/NAME of 1 to 128 characters of A-Z, a-z, 0-9, ".", "_", "-" each';
  throw bad("name", `name ${rule}, got ${JSON.stringify(name)}`);
}

/** The rows as the trainer takes them. @throws BadRequestError naming row and field. */
export function toTokenRows(rows: readonly TrainingRow[], base: Pick<TrainingBase, "contextLength">): TokenRow[] {
  if (!Array.isArray(rows)) throw bad("rows", "rows must be a list of rows");
  return (rows as readonly TrainingRow[]).map((row, r) => toTokenRow(row, `rows.${r}`, base.contextLength));
}

function toTokenRow(row: TrainingRow, path: string, contextLength: number): TokenRow {
  for (const name of ["tokens", "trained"] as const) {
    if (typeof row?.[name]?.length !== "number") throw bad(`${path}.${name}`, `${path}.${name} must be a list`);
  }
  checkNames(row, ["tokens", "trained", ...OPTIONAL], path);
  const { length } = row.tokens;
  if (length === 0) throw bad(`${path}.tokens`, `${path}.tokens must not be empty`);
  if (length > contextLength) {
    throw bad(`${path}.tokens`, `${path}.tokens holds ${length} tokens, the context is ${contextLength}`);
  }
  const wrong = Array.prototype.findIndex.call(row.tokens, (id) => !Number.isInteger(id) || id < 0 || id > MAX_ID);
  if (wrong >= 0) throw bad(`${path}.tokens.${wrong}`, `${path}.tokens.${wrong} must be a token id`);
  for (const name of ["trained", ...OPTIONAL] as const) {
    const values = row[name];
    if (values != null && values.length !== length) {
      const message = `${path}.${name} must be as long as tokens (${length}), is ${values.length}`;
      throw bad(`${path}.${name}`, message);
    }
  }
  for (const name of OPTIONAL) {
    if (row[name] != null) checkNumbers(row[name], `${path}.${name}`, name === "oldLogprobs");
  }
  const { temperatures } = row;
  const outside = temperatures ? Array.prototype.findIndex.call(temperatures, (value) => !isTrainable(value)) : -1;
  if (outside >= 0) {
    const range = `between ${MIN_TRAINED_TEMPERATURE} and ${MAX_TRAINED_TEMPERATURE}`;
    throw bad(`${path}.temperatures.${outside}`, `${path}.temperatures.${outside} must be ${range}`);
  }
  return {
    ...(temperatures ? { temperatures: Float32Array.from(temperatures) } : {}),
    tokens: Int32Array.from(row.tokens),
    trained: Uint8Array.from({ length }, (_, i) => (i > 0 && row.trained[i] ? 1 : 0)),
  };
}

/**
 * What a float32 holds; NaN, which stands for no value, only where there may be none.
 * @throws BadRequestError naming the entry
 */
export function checkNumbers(values: ArrayLike<number>, path: string, mayLack = false): void {
  const holds = (value: unknown) =>
    typeof value === "number" && (Number.isFinite(Math.fround(value)) || (mayLack && Number.isNaN(value)));
  const wrong = Array.prototype.findIndex.call(values, (value) => !holds(value));
  if (wrong < 0) return;
  throw bad(`${path}.${wrong}`, `${path}.${wrong} must be a finite number, got ${String(values[wrong])}`);
}
