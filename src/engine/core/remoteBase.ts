// A base model that a server with Tinker's interface computes: its folder's tokenizer, chat template and configuration are read here, its
// weights are not.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ValidationError } from "../../errors.js";
import { isGguf } from "../../gguf/ggufFile.js";
import { CompletionLoop } from "../../inference/index.js";
import { TinkerDevice, TinkerServer } from "../../runtime/remoteRuntime.js";
import type { EngineOptions, ModelOptions, TinkerOptions } from "../../types/options.js";
import { openWeightFiles, readAdapterFolder, readModelConfig } from "../../weights/index.js";
import { modelSpec } from "../../weights/modelSpec.js";
import { type BaseModel, baseModelId, findFolder, loadText } from "./baseModel.js";
import { readGenerationDefaults, withReplyEnds } from "./generationDefaults.js";
import { type ResolvedOptions, resolveOptions } from "./options.js";

/** Where an engine's models are computed. */
export interface RemoteEngine {
  server: TinkerServer;
  /** The server's name of the base model; null: the only one, or the one that is called like ours. */
  baseModel: string | null;
}

const DEFAULT_PATIENCE_MS = 120_000;
/** Of adapters there; a model's own setting must agree with what the server makes. */
const ADAPTER_ALPHA = 32;
/** Each takes one of the server's places while it is used. */
const MAX_IDLE_ADAPTERS = 4;

/** What is about computing here says nothing of a server. */
const OF_THIS_MACHINE = [
  "device",
  "gpuLayers",
  "precision",
  "dtype",
  "onnx",
  "quantize",
  "kvCache",
  "threads",
  "memoryLimit",
  "verify",
  "scheduler",
  "speculation",
  "maxSequences",
  "tokenBudget",
];

/** @throws ValidationError naming the option; RemoteServerError when there is no such server. */
export async function openRemote(
  url: string,
  { protocol, apiKey, baseModel, patienceMs = DEFAULT_PATIENCE_MS, ...given }: TinkerOptions,
): Promise<{ options: ResolvedOptions; remote: RemoteEngine }> {
  const wrong = (name: string, msg: string) =>
    new ValidationError([{ loc: ["options", name], msg, type: "value_error" }]);
  if (protocol !== "tinker") throw wrong("protocol", 'must be "tinker"');
  const local = Object.keys(given).find((name) => OF_THIS_MACHINE.includes(name));
  if (local) throw wrong(local, "is about computing on this machine, not on a server");
  if (given.models && given.models.length !== 1) throw wrong("models", "one model is computed by one server");
  if (!(Number.isFinite(patienceMs) && patienceMs >= 0)) throw wrong("patienceMs", "must be a number, at least 0");
  const server = await TinkerServer.open({ url, apiKey: apiKey ?? null, patienceMs });
  // A bound that the server does not know is none that can be a default.
  const unclipped = server.dialect.clipsGradients ? {} : { maxGradNorm: 0 };
  const options: EngineOptions = {
    maxIdleAdapters: MAX_IDLE_ADAPTERS,
    ...given,
    adapter: { alpha: ADAPTER_ALPHA, ...given.adapter },
    optimizer: { rl: { ...unclipped, ...given.optimizer?.rl }, sft: { ...unclipped, ...given.optimizer?.sft } },
  };
  return { options: resolveOptions(options), remote: { server, baseModel: baseModel ?? null } };
}

/** @throws ModelFileError for a folder that lacks what is read here; ValidationError when the server has no such model. */
export async function loadRemoteBase(
  { server, baseModel }: RemoteEngine,
  model: ModelOptions,
  options: ResolvedOptions,
): Promise<BaseModel> {
  const { folder, name } = await findFolder(model.path);
  const id = baseModelId(model, folder, name);
  const [{ tokenizer, template }, generationConfig, fields] = await Promise.all([
    loadText(folder),
    readGenerationDefaults(folder),
    readModelConfig(folder),
  ]);
  const config = modelSpec(fields);
  const served = namedByServer(server, baseModel, id);
  const most = Math.min(config.maxPositions, server.models.get(served) ?? config.maxPositions);
  const contextLength = Math.min(options.contextLength ?? most, most);
  const isTemporary = options.home === null;
  const readAdapter = (archive: string) => readAdapterFolder(archive, config);
  const device = new TinkerDevice({ server, baseModel: served, config, isTemporary, readAdapter });
  const { mtimeMs } = await stat(isGguf(folder) ? folder : join(folder, "config.json"));
  options.logger.info("model is computed elsewhere", { id, url: server.url, baseModel: served });
  return {
    id,
    folder,
    format: "remote",
    config,
    contextLength,
    tokenizer,
    template,
    generationConfig: withReplyEnds(generationConfig, template, tokenizer),
    embedding: null,
    hash: await hashOf(folder),
    stamp: null,
    reread: null,
    device,
    loop: new CompletionLoop(device, tokenizer, { contextLength, maxQueue: options.maxQueue }),
    created: Math.floor(mtimeMs / 1000),
  };
}

/** Of the weights, where they lie here too, so that a home serves its models with and without the server; else of the configuration. */
async function hashOf(folder: string): Promise<string> {
  const hasWeights =
    isGguf(folder) ||
    ["model.safetensors", "model.safetensors.index.json"].some((file) => existsSync(join(folder, file)));
  if (hasWeights) return (await openWeightFiles(folder)).content.hash();
  return createHash("sha256")
    .update(await readFile(join(folder, "config.json")))
    .digest("hex");
}

function namedByServer(server: TinkerServer, asked: string | null, id: string): string {
  const names = [...server.models.keys()];
  const name = asked ?? (names.length === 1 ? names[0]! : id);
  // A server may serve more than it lists.
  if (asked !== null || names.length === 0 || names.includes(name)) return name;
  throw new ValidationError([
    {
      loc: ["options", "baseModel"],
      msg: `${server.url} has no "${id}"; name one of its own: ${names.join(", ")}`,
      type: "value_error",
    },
  ]);
}
