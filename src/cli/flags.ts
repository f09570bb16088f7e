import { homedir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { EngineOptions, ModelOptions } from "../types/options.js";

/** A command line that cannot be understood: shown with a pointer to `--help`, exit status 2. */
export class UsageError extends Error {}

interface Flag {
  type: "string" | "boolean";
  short?: string;
  multiple?: boolean;
}

type Flags = Readonly<Record<string, Flag>>;

type Values<F extends Flags> = {
  [K in keyof F]?: F[K]["type"] extends "boolean" ? boolean : F[K] extends { multiple: true } ? string[] : string;
};

/**
 * Parses a command's arguments; an option that is not given is taken from its environment variable (`--data-root` from
 * ANNEAL_DATA_ROOT; several values are separated as in PATH).
 * @throws UsageError
 */
export function readFlags<F extends Flags>(
  args: readonly string[],
  options: F,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): { values: Values<F>; positionals: string[] } {
  let parsed: { values: Record<string, unknown>; positionals: string[] };
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
  } catch (error) {
    // Of Node's message, the sentence that names the option.
    throw new UsageError((error as Error).message.split(/\.\s/)[0]!);
  }
  const values = parsed.values as Record<string, unknown>;
  for (const [name, option] of Object.entries(options)) {
    const value = environment[`ANNEAL_${name.toUpperCase().replaceAll("-", "_")}`];
    if (values[name] !== undefined || !value) continue;
    if (option.type === "boolean") values[name] = !["0", "false", "no"].includes(value.toLowerCase());
    else values[name] = option.multiple ? value.split(delimiter) : value;
  }
  return { values: values as Values<F>, positionals: parsed.positionals };
}

/** @throws UsageError, for a command whose whole input is options. */
export function refuseArguments(positionals: readonly string[]): void {
  if (positionals.length > 0) throw new UsageError(`what is "${positionals[0]}"? this command takes only options`);
}

export function readInteger(flag: string, text: string | undefined, least = 1, most = 1e15): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text) && Number(text) >= least && Number(text) <= most) return Number(text);
  const range = most < 1e15 ? `from ${least} to ${most}` : `from ${least}`;
  throw new UsageError(`--${flag} takes a whole number ${range}, not "${text}"`);
}

const units: Record<string, number> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** Bytes, as "800m", "6GiB" or a plain number. */
export function readBytes(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const match = /^(\d+(?:\.\d+)?)\s*([kmg]?)(i?b)?$/i.exec(text);
  if (!match) throw new UsageError(`--${flag} takes a size such as 800m or 6GiB, not "${text}"`);
  return Math.floor(Number(match[1]) * units[match[2]!.toLowerCase()]!);
}

function readChoice<T extends string>(flag: string, text: string | undefined, choices: readonly T[]): T | undefined {
  if (text === undefined || (choices as readonly string[]).includes(text)) return text as T | undefined;
  throw new UsageError(`--${flag} is one of ${choices.join(", ")}, not "${text}"`);
}

/** `rl.weightDecay=0.05` and the like; which names and values there are is for the engine to say. */
function readOptimizer(texts: readonly string[] | undefined): EngineOptions["optimizer"] {
  if (texts === undefined) return undefined;
  const settings: Record<string, Record<string, number>> = {};
  for (const text of texts) {
    const match = /^(rl|sft)\.(\w+)=(\S+)$/.exec(text);
    const value = Number(match?.[3]);
    if (!match || !Number.isFinite(value)) {
      throw new UsageError(`--optimizer takes a setting such as rl.weightDecay=0.05, not "${text}"`);
    }
    settings[match[1]!] = { ...settings[match[1]!], [match[2]!]: value };
  }
  return settings;
}

/** The shape of new models' adapters; undefined when no flag asks for one. */
function readAdapter(values: Values<typeof engineFlags>): EngineOptions["adapter"] {
  const rank = readInteger("adapter-rank", values["adapter-rank"]);
  const alpha = values["adapter-alpha"] === undefined ? undefined : Number(values["adapter-alpha"]);
  if (alpha !== undefined && !(alpha > 0 && Number.isFinite(alpha))) {
    throw new UsageError(`--adapter-alpha takes a number above 0, not "${values["adapter-alpha"]}"`);
  }
  const targets = values["adapter-target"];
  return rank === undefined && alpha === undefined && targets === undefined
    ? undefined
    : given({ rank, alpha, targets });
}

/** Without what was not given. */
function given<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}

/** A folder, or `name=folder`. */
function readModel(text: string): ModelOptions {
  const at = text.indexOf("=");
  return at > 0 ? { id: text.slice(0, at), path: resolve(text.slice(at + 1)) } : { path: resolve(text) };
}

/** `PROJECT/NAME`, of a model that may be made. */
export function readName(text: string | undefined): { project: string; name: string } {
  const [project, name, ...rest] = (text ?? "").split("/");
  if (!project || !name || rest.length > 0) throw new UsageError(`a model is named PROJECT/NAME, not "${text ?? ""}"`);
  return { project, name };
}

export const defaultHome = (): string => join(homedir(), ".anneal");

export const homeFlags = {
  home: { type: "string" },
  "api-key": { type: "string" },
  help: { type: "boolean", short: "h" },
} as const satisfies Flags;

export const engineFlags = {
  ...homeFlags,
  model: { type: "string", multiple: true },
  dtype: { type: "string" },
  threads: { type: "string" },
  "memory-limit": { type: "string" },
  "context-length": { type: "string" },
  "max-sequences": { type: "string" },
  "token-budget": { type: "string" },
  "max-queue": { type: "string" },
  "tool-parser": { type: "string" },
  scheduler: { type: "string" },
  "sampling-defaults": { type: "string" },
  "max-training-jobs": { type: "string" },
  "optimizer-step": { type: "string" },
  optimizer: { type: "string", multiple: true },
  "adapter-rank": { type: "string" },
  "adapter-alpha": { type: "string" },
  "adapter-target": { type: "string", multiple: true },
  entity: { type: "string" },
  "data-root": { type: "string", multiple: true },
  "allow-host": { type: "string", multiple: true },
} as const satisfies Flags;

export const engineUsage = `  --model PATH           a Hugging Face folder, or NAME=PATH; repeatable (default: the embedded model)
  --dtype TYPE           auto, float32, bfloat16
  --threads N            compute threads
  --memory-limit SIZE    for weights and cache, such as 6GiB
  --context-length N     tokens of a sequence at most
  --max-sequences N      sequences computed at once
  --token-budget N       tokens computed in one step
  --max-queue N          requests waiting at most
  --tool-parser NAME     none, auto, hermes, llama3
  --scheduler NAME       fcfs, priority
  --sampling-defaults D  model, neutral
  --max-training-jobs N  models that jobs train at once (default 4)
  --optimizer-step S     group, completion, job
  --optimizer SETTING    rl.NAME=VALUE or sft.NAME=VALUE; names: beta1, beta2, eps, weightDecay, maxGradNorm; repeatable
  --adapter-rank N       of new models' adapters (default 8)
  --adapter-alpha X      likewise (default 16)
  --adapter-target NAME  a projection that they train, such as q_proj; repeatable (default: all seven)
  --entity NAME          the owner's entity (default local)
  --data-root PATH       folder from which requests may name files; repeatable
  --allow-host HOST      host from which training data may be read; repeatable`;

/** The engine's options that the flags ask for; those not given are left to the engine. */
export function readEngineOptions(values: Values<typeof engineFlags>): EngineOptions {
  return given<EngineOptions>({
    models: values.model?.map(readModel),
    dtype: readChoice("dtype", values.dtype, ["auto", "float32", "bfloat16"]),
    threads: readInteger("threads", values.threads),
    memoryLimit: readBytes("memory-limit", values["memory-limit"]),
    contextLength: readInteger("context-length", values["context-length"]),
    maxSequences: readInteger("max-sequences", values["max-sequences"]),
    tokenBudget: readInteger("token-budget", values["token-budget"]),
    maxQueue: readInteger("max-queue", values["max-queue"]),
    toolParser: readChoice("tool-parser", values["tool-parser"], ["none", "auto", "hermes", "llama3"]),
    scheduler: readChoice("scheduler", values.scheduler, ["fcfs", "priority"]),
    samplingDefaults: readChoice("sampling-defaults", values["sampling-defaults"], ["model", "neutral"]),
    maxTrainingJobs: readInteger("max-training-jobs", values["max-training-jobs"]),
    optimizerStep: readChoice("optimizer-step", values["optimizer-step"], ["group", "completion", "job"]),
    optimizer: readOptimizer(values.optimizer),
    adapter: readAdapter(values),
    entity: values.entity,
    apiKey: values["api-key"],
    dataRoots: values["data-root"],
    allowedHosts: values["allow-host"],
  });
}
