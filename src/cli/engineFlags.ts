// The options that every command has which opens an engine.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { DEVICE_NAMES, isDeviceName, PRECISIONS } from "../deviceNames.js";
import { DTYPES, KV_CACHES, QUANTIZATIONS } from "../modelChoices.js";
import { TOOL_FORMATS } from "../toolFormats.js";
import type { EngineOptions, ModelOptions } from "../types/options.js";
import { withoutUndefined } from "../withoutAbsent.js";
import {
  bytes,
  choice,
  type Flag,
  integer,
  number,
  readEnvironment,
  repeated,
  text,
  toggle,
  UsageError,
  type Values,
} from "./flags.js";

export const homeFlags = {
  home: text("PATH", "folder for everything durable (default ~/.anneal)"),
  "api-key": text("KEY", "the owner's key (default: the one kept in the home)"),
};

/** `rl.weightDecay=0.05` and the like; which names and values there are is for the engine to say. */
const optimizer: Flag<EngineOptions["optimizer"]> = {
  value: "SETTING",
  help: "rl.NAME=VALUE or sft.NAME=VALUE; names: beta1, beta2, eps, weightDecay, maxGradNorm; repeatable",
  repeatable: true,
  read(texts, name) {
    const settings: Record<string, Record<string, number>> = {};
    for (const given of texts) {
      const match = /^(rl|sft)\.(\w+)=(\S+)$/.exec(given);
      const value = Number(match?.[3]);
      if (!match || !Number.isFinite(value)) {
        throw new UsageError(`${name} takes a setting such as rl.weightDecay=0.05, not "${given}"`);
      }
      settings[match[1]!] = { ...settings[match[1]!], [match[2]!]: value };
    }
    return settings;
  },
};

/** A folder, or `name=folder`. */
const models: Flag<ModelOptions[]> = {
  value: "PATH",
  help: "a Hugging Face folder, a GGUF file or OWNER/NAME that was pulled, or NAME=PATH; repeatable (default: the embedded model)",
  repeatable: true,
  read: (texts, name) =>
    texts.map((given) => {
      // A folder may have an equals sign in its name.
      const at = existsSync(given) ? -1 : given.indexOf("=");
      const path = given.slice(at + 1);
      if (path === "") throw new UsageError(`${name} takes a folder, a file or OWNER/NAME, not "${given}"`);
      return at > 0 ? { id: given.slice(0, at), path: resolve(path) } : { path: resolve(path) };
    }),
};

const device: Flag<EngineOptions["device"]> = {
  value: "DEVICE",
  help: "auto, cpu, gpu or one that `anneal devices` lists, such as vulkan:0",
  read: (texts, name) => {
    const given = texts.at(-1)!;
    if (isDeviceName(given)) return given;
    throw new UsageError(`${name} is ${DEVICE_NAMES}, not "${given}"`);
  },
};

export const engineFlags = {
  ...homeFlags,
  model: models,
  device,
  "gpu-layers": integer("N", "of a GPU: layers of a model that it computes, the last; the others are the processor's", {
    from: 0,
  }),
  precision: choice(
    "HOW",
    PRECISIONS,
    "fast: on AMX or a GPU's cooperative matrices, with bits of their own (default exact)",
  ),
  dtype: choice("TYPE", DTYPES),
  "onnx-variant": text("NAME", "of models in ONNX: fp32, fp16, q4, int8 and so on (default: what the folder names)"),
  "execution-provider": text("NAME", "that computes models in ONNX (default cpu)"),
  quantize: choice(
    "HOW",
    QUANTIZATIONS,
    "quantise weights while they are loaded; int16 is for speed, as exact as bfloat16",
  ),
  "kv-cache": choice("HOW", KV_CACHES, "what the KV cache holds (default exact)"),
  threads: integer("N", "compute threads"),
  "memory-limit": bytes("SIZE", "for weights and cache, such as 6GiB"),
  "context-length": integer("N", "tokens of a sequence at most"),
  "max-sequences": integer("N", "sequences computed at once"),
  "token-budget": integer("N", "tokens computed in one step"),
  "max-queue": integer("N", "requests waiting at most"),
  "tool-parser": choice("NAME", ["none", "auto", ...TOOL_FORMATS], "default auto; of serve none"),
  scheduler: choice("NAME", ["fcfs", "priority"]),
  speculation: choice("HOW", ["prompt_lookup", "none"], "what tokens to come are guessed from (default prompt_lookup)"),
  "sampling-defaults": choice("D", ["model", "neutral"]),
  "max-training-jobs": integer("N", "models that jobs train at once (default 4)"),
  "optimizer-step": choice("S", ["group", "completion", "job"]),
  optimizer,
  "adapter-rank": integer("N", "of new models' adapters (default 8)"),
  "adapter-alpha": number("X", "likewise (default 16)", (alpha) => alpha > 0, "above 0"),
  "adapter-target": repeated("NAME", "a projection that they train, such as q_proj; repeatable (default: all seven)"),
  verify: toggle("refuse base models whose weights have changed since the home first saw them"),
  entity: text("NAME", "the owner's entity (default local)"),
  "data-root": repeated("PATH", "folder from which requests may name files; repeatable"),
  "allow-host": repeated("HOST", "host from which training data may be read; repeatable"),
};

type EngineValues = Values<typeof engineFlags>;

/** Whether it is the command line that says it, not the environment, which other commands have, too. */
export function isGiven(values: EngineValues, name: keyof EngineValues): boolean {
  const value = values[name];
  return value !== undefined && !isDeepStrictEqual(value, readEnvironment<unknown>(name, engineFlags[name]));
}

const givenOnnxFlag = (values: EngineValues) =>
  (["onnx-variant", "execution-provider"] as const).find((name) => isGiven(values, name));

/** @throws UsageError for options of what there is none of. */
function checkEffect(values: EngineValues): void {
  const { model, device = "cpu" } = values;
  if (values["gpu-layers"] && device === "cpu" && isGiven(values, "gpu-layers")) {
    throw new UsageError("--gpu-layers is of a GPU, and the cpu computes: name one with --device");
  }
  const ofOnnx = givenOnnxFlag(values);
  if (ofOnnx && model === undefined) throw new UsageError(`--${ofOnnx} is of models in ONNX: name one with --model`);
}

/**
 * The engine's options that the flags ask for; those not given are left to the engine.
 * @throws UsageError for flags that would have no effect.
 */
export function readEngineOptions(values: EngineValues): EngineOptions {
  checkEffect(values);
  const adapter = withoutUndefined<NonNullable<EngineOptions["adapter"]>>({
    rank: values["adapter-rank"],
    alpha: values["adapter-alpha"],
    targets: values["adapter-target"],
  });
  const onnx = withoutUndefined({ variant: values["onnx-variant"], executionProvider: values["execution-provider"] });
  return withoutUndefined<EngineOptions>({
    // Of one model they ask for its ONNX, whatever else its folder has; of several, nobody knows of which.
    models:
      givenOnnxFlag(values) && values.model?.length === 1
        ? values.model.map((model) => ({ ...model, onnx }))
        : values.model,
    device: values.device,
    gpuLayers: values["gpu-layers"],
    precision: values.precision,
    dtype: values.dtype,
    onnx: Object.keys(onnx).length > 0 ? onnx : undefined,
    quantize: values.quantize,
    kvCache: values["kv-cache"],
    threads: values.threads,
    memoryLimit: values["memory-limit"],
    contextLength: values["context-length"],
    maxSequences: values["max-sequences"],
    tokenBudget: values["token-budget"],
    maxQueue: values["max-queue"],
    toolParser: values["tool-parser"],
    scheduler: values.scheduler,
    speculation: values.speculation,
    samplingDefaults: values["sampling-defaults"],
    maxTrainingJobs: values["max-training-jobs"],
    optimizerStep: values["optimizer-step"],
    optimizer: values.optimizer,
    adapter: Object.keys(adapter).length > 0 ? adapter : undefined,
    verify: values.verify,
    entity: values.entity,
    apiKey: values["api-key"],
    dataRoots: values["data-root"],
    allowedHosts: values["allow-host"],
  });
}
