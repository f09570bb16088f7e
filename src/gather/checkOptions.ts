import { inspect } from "node:util";
import { BadRequestError, ValidationError } from "../errors.js";
import { experimentalConfig, MAX_RUN_NAME } from "../schemas/jobs.js";
import { modelPublish } from "../schemas/publish.js";
import { validate } from "../schemas/validate.js";
import { resolvePolicy } from "../training/index.js";
import type { GatherOptions, TrainOptions } from "../types/gather.js";

type Options = Record<string, unknown>;
/** What a value must be, and whether it is. */
type Rule = readonly [rule: string, holds: (value: unknown) => boolean];

const whole = (min: number, max = Number.MAX_SAFE_INTEGER): Rule => [
  max < Number.MAX_SAFE_INTEGER ? `a whole number from ${min} to ${max}` : `a whole number, at least ${min}`,
  (value) => Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
];
const list: Rule = ["a list", Array.isArray];
const called: Rule = ["a function", (value) => typeof value === "function"];
const object: Rule = ["an object", (value) => typeof value === "object" && value !== null];

/** Of one scenario: with more a mistyped number would take all memory. */
const MAX_ROLLOUTS = 65_536;

const GATHERING: { [K in keyof GatherOptions<unknown>]-?: Rule } = {
  model: ["a model or its name", (value) => typeof value === "string" || object[1](value)],
  scenarios: list,
  rollout: called,
  groupSize: whole(1, MAX_ROLLOUTS),
  concurrency: whole(1),
  timeoutMs: [
    "a whole number of milliseconds, 0 to 2147483647",
    (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31,
  ],
  maxExceptionShare: ["a number from 0 to 1", (value) => typeof value === "number" && value >= 0 && value <= 1],
  maxExceptions: ["a number, at least 0", (value) => typeof value === "number" && value >= 0],
  seed: ["a whole number", (value) => typeof value === "bigint" || Number.isSafeInteger(value)],
  reward: called,
  scoreGroup: called,
  rollouts: object,
  onProgress: called,
  signal: ["an AbortSignal", (value) => value instanceof AbortSignal],
};

const TRAINING: { [K in keyof TrainOptions<unknown>]-?: Rule } = {
  ...GATHERING,
  model: ["a model as models.create gives it (one that is there with return_existing)", object[1]],
  scenarios: ["a list with at least one entry", (value) => Array.isArray(value) && value.length > 0],
  // The one rollout of a group of its own would be compared with nothing.
  groupSize: whole(2, MAX_ROLLOUTS),
  steps: whole(0),
  name: [
    `a text of 1 to ${MAX_RUN_NAME} characters`,
    (value) => typeof value === "string" && value.length > 0 && value.length <= MAX_RUN_NAME,
  ],
  resume: ["true or false", (value) => typeof value === "boolean"],
  groupsPerStep: whole(1),
  validation: list,
  config: object,
  publish: object,
  earlyStopping: [
    "{ patience, threshold? }: a whole number, at least 1, and a number, at least 0",
    (value) => {
      if (!object[1](value)) return false;
      const { patience, threshold = 0, ...others } = value as Options;
      const isThreshold = typeof threshold === "number" && Number.isFinite(threshold) && threshold >= 0;
      return isThreshold && whole(1)[1](patience) && Object.keys(others).length === 0;
    },
  ],
  keepBest: ["true or false", (value) => typeof value === "boolean"],
};

const needed = new Set(["model", "scenarios", "rollout", "groupSize", "steps"]);

/** @throws BadRequestError naming the first option that is unknown, missing, or not what it must be. */
export function checkGatherOptions(options: object): void {
  check(options as Options, GATHERING);
  checkRollouts((options as Options).rollouts as Options | undefined);
}

/** As `checkGatherOptions`; ValidationError naming what the jobs would refuse of `config`, before anything is rolled out. */
export function checkTrainOptions(options: object): void {
  check(options as Options, TRAINING);
  checkRollouts((options as Options).rollouts as Options | undefined);
  const { config, validation, earlyStopping, keepBest, publish } = options as Options;
  const needing = earlyStopping === undefined ? (keepBest ? "keepBest" : null) : "earlyStopping";
  if (needing && !(validation as unknown[] | undefined)?.length) {
    throw new BadRequestError(`${needing} needs validation scenarios to judge by`, { param: needing });
  }
  if (publish !== undefined) checkPublish(publish as Options, validation as unknown[] | undefined);
  if (config === undefined) return;
  named("config", () => resolvePolicy(validate(experimentalConfig, config, { strict: true }), 0));
}

/** Its ValidationError as one of an option. */
function named(option: string, work: () => unknown): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    const fieldOf = (loc: string[]) => loc.filter((part) => part !== "body" && part !== "experimental_config");
    throw new ValidationError(error.issues.map((issue) => ({ ...issue, loc: [option, ...fieldOf(issue.loc)] })));
  }
}

function checkRollouts(rollouts: Options | undefined): void {
  if (rollouts === undefined) return;
  const { publishEvery = 1, maxLogprobDifference, ...target } = rollouts;
  const [rule, holds] = whole(1);
  if (!holds(publishEvery)) throw badOption("rollouts.publishEvery", rule, publishEvery);
  const isBound = typeof maxLogprobDifference === "number" && maxLogprobDifference >= 0;
  if (maxLogprobDifference !== undefined && !isBound) {
    throw badOption("rollouts.maxLogprobDifference", "a number, at least 0", maxLogprobDifference);
  }
  checkTarget("rollouts", target, ["step", "latest"]);
}

function checkPublish(publish: Options, validation: unknown[] | undefined): void {
  const { when = "step", ...target } = publish;
  if (when !== "step" && when !== "best") throw badOption("publish.when", '"step" or "best"', when);
  if (when === "best" && !validation?.length) {
    throw new BadRequestError("publish.when needs validation scenarios to judge by", { param: "publish.when" });
  }
  checkTarget("publish", target, ["step"]);
}

/** What `models.publish` would refuse, before anything is rolled out. */
function checkTarget(option: string, target: Options, none: readonly string[]): void {
  const own = none.find((name) => target[name] !== undefined);
  if (own) throw new BadRequestError(`there is no option ${option}.${own}`, { param: `${option}.${own}` });
  named(option, () => validate(modelPublish, target, { strict: true }));
}

function check(options: Options, rules: Readonly<Record<string, Rule>>): void {
  if (!object[1](options)) throw badOption("options", object[0], options);
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(rules, name));
  if (unknown !== undefined) {
    const known = Object.keys(rules).join(", ");
    throw new BadRequestError(`there is no option ${unknown}; there are ${known}`, { param: unknown });
  }
  for (const [name, [rule, holds]] of Object.entries(rules)) {
    const value = options[name];
    if (value === undefined && !needed.has(name)) continue;
    if (!holds(value)) throw badOption(name, rule, value);
  }
}

export function badOption(name: string, rule: string, value: unknown): BadRequestError {
  const given = inspect(value, { depth: 1, breakLength: Number.POSITIVE_INFINITY });
  return new BadRequestError(`${name} must be ${rule}, got ${given}`, { param: name });
}
