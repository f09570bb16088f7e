import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { adapterModuleNames, PLAIN_MODULES } from "../../adapterModules.js";
import { DEVICE_NAMES, type DeviceName, isDeviceName, PRECISIONS } from "../../deviceNames.js";
import { ValidationError } from "../../errors.js";
import { DTYPES, KV_CACHES, QUANTIZATIONS } from "../../modelChoices.js";
import { packageFolder } from "../../packageFiles.js";
import { ADAPTER_ALPHA, MAX_ADAPTER_RANK, OPTIMIZER_RANGES, type Range } from "../../schemas/bounds.js";
import { name } from "../../schemas/names.js";
import { validate } from "../../schemas/validate.js";
import { TOOL_FORMATS } from "../../toolFormats.js";
import { OPTIMIZER, type OptimizerSettings } from "../../training/optimizer.js";
import type { Logger } from "../../types/logger.js";
import type { EngineOptions, ModelOptions } from "../../types/options.js";

const dtype = z.enum(DTYPES);
const quantize = z.enum(QUANTIZATIONS);
const kvCache = z.enum(KV_CACHES);
const count = z.int().min(1);
/** Beyond these a mistyped option would cost memory and time without end. */
const MAX = { threads: 256, layers: 4096, sequences: 4096, stepTokens: 65_536, queue: 1_000_000 };
/** With fewer tokens a step does little but begin and end. */
const MIN_STEP_TOKENS = 16;

/** What every operating system refuses in a path. */
const path = z
  .string()
  .min(1)
  .refine((text) => !text.includes("\0"), "must not hold a zero byte");

const onnx = z.strictObject({ variant: z.string().min(1).optional(), executionProvider: z.string().min(1).optional() });

const modelOptions = z.strictObject({
  id: z.string().min(1).optional(),
  path,
  dtype: dtype.optional(),
  quantize: quantize.optional(),
  kvCache: kvCache.optional(),
  kvPages: count.optional(),
  onnx: onnx.optional(),
});

const logger = z.custom<Logger>(
  (value) =>
    ["debug", "info", "warn", "error"].every(
      (method) => typeof (value as Record<string, unknown> | null)?.[method] === "function",
    ),
  "must have the methods debug, info, warn and error",
);

const within = ([min, max]: Range) => z.number().min(min).max(max);

const optimizer = (defaults: OptimizerSettings) =>
  z
    .strictObject({
      beta1: within(OPTIMIZER_RANGES.beta1).default(defaults.beta1),
      beta2: within(OPTIMIZER_RANGES.beta2).default(defaults.beta2),
      eps: within(OPTIMIZER_RANGES.eps).default(defaults.eps),
      weightDecay: within(OPTIMIZER_RANGES.weightDecay).default(defaults.weightDecay),
      maxGradNorm: within(OPTIMIZER_RANGES.maxGradNorm).default(defaults.maxGradNorm),
    })
    .prefault({});

const engineOptions = z.object({
  home: path.nullish(),
  models: z
    .array(z.union([path, modelOptions]))
    .min(1)
    .optional(),
  device: z.custom<DeviceName>(isDeviceName, `must be ${DEVICE_NAMES}`).default("cpu"),
  precision: z.enum(PRECISIONS).default("exact"),
  gpuLayers: z.number().int().min(0).max(MAX.layers).optional(),
  dtype: dtype.default("auto"),
  onnx: onnx.default({}),
  quantize: quantize.optional(),
  kvCache: kvCache.default("exact"),
  threads: count.max(MAX.threads).optional(),
  memoryLimit: z.number().positive().optional(),
  logger: logger.optional(),
  entity: name.default("local"),
  apiKey: z
    .string()
    .min(1)
    .regex(/^[!-~]*$/, "must be printable ASCII without spaces, as requests carry it in a header")
    .optional(),
  verify: z.boolean().default(false),
  toolParser: z.enum(["auto", "none", ...TOOL_FORMATS]).default("auto"),
  scheduler: z.enum(["fcfs", "priority"]).default("fcfs"),
  speculation: z.enum(["prompt_lookup", "none"]).default("prompt_lookup"),
  samplingDefaults: z.enum(["model", "neutral"]).default("model"),
  /** One token of prompt, one of reply. */
  contextLength: z.int().min(2).optional(),
  maxSequences: count.max(MAX.sequences).default(64),
  tokenBudget: z.int().min(MIN_STEP_TOKENS).max(MAX.stepTokens).default(512),
  maxQueue: count.max(MAX.queue).default(2048),
  maxIdleAdapters: z.int().min(0).default(16),
  maxTrainingJobs: count.default(4),
  optimizerStep: z.enum(["group", "completion", "job"]).default("group"),
  optimizer: z.strictObject({ rl: optimizer(OPTIMIZER.rl), sft: optimizer(OPTIMIZER.sft) }).prefault({}),
  adapter: z
    .strictObject({
      rank: count.max(MAX_ADAPTER_RANK).default(8),
      alpha: within(ADAPTER_ALPHA).default(16),
      targets: z
        .array(z.enum(adapterModuleNames))
        .min(1)
        .default([...PLAIN_MODULES]),
    })
    .prefault({}),
  dataRoots: z.array(path).optional(),
  allowedHosts: z.array(z.string().min(1)).default([]),
});

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** A logger that fails, such as one whose file is on a full disk, does not end what is being told of. */
function harmless(logger: Logger): Logger {
  const told =
    (level: keyof Logger): Logger[keyof Logger] =>
    async (message, fields) => {
      try {
        await logger[level](message, fields);
      } catch {
        // There is no other place to say it.
      }
    };
  return { debug: told("debug"), info: told("info"), warn: told("warn"), error: told("error") };
}

/** The model that comes with the package. */
export const embeddedModel = {
  id: "anneal/tiny",
  get path(): string {
    return fileURLToPath(new URL("models/tiny", packageFolder()));
  },
};

export type ResolvedOptions = Omit<
  z.output<typeof engineOptions>,
  "home" | "models" | "logger" | "dataRoots" | "quantize"
> & {
  /** Absolute. */
  home: string | null;
  models: ModelOptions[];
  logger: Logger;
  /** Real paths; null: the operator named none. */
  dataRoots: string[] | null;
};

function realFolder(path: string, index: number): string {
  try {
    return realpathSync(path);
  } catch {
    const loc = ["options", "dataRoots", String(index)];
    throw new ValidationError([{ loc, msg: `there is no folder ${path}`, type: "value_error" }]);
  }
}

/** @throws ValidationError naming unknown and wrong options. */
export function resolveOptions(given: EngineOptions): ResolvedOptions {
  const { home, models, logger, dataRoots, quantize, ...rest } = validate(engineOptions, given, {
    strict: true,
    from: "options",
  });
  return {
    ...rest,
    // A sequence that is being computed gets its token in every step.
    maxSequences: Math.min(rest.maxSequences, rest.tokenBudget),
    // No layers of a GPU: nothing of one is asked.
    ...(rest.gpuLayers === 0 && { device: "cpu" as const, gpuLayers: undefined }),
    home: home == null ? null : resolve(home),
    models: (models ?? [embeddedModel]).map((model) => ({
      ...(quantize && { quantize }),
      ...(typeof model === "string" ? { path: model } : model),
    })),
    logger: logger ? harmless(logger) : silent,
    dataRoots: dataRoots?.map(realFolder) ?? null,
  };
}
