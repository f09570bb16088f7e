// Encoders in ONNX that an engine serves beside its models: they make vectors, and nothing else.

import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ModelFileError } from "../../errors.js";
import { OnnxEncoder } from "../../onnx/onnxEncoder.js";
import { graphMentions } from "../../runtime/onnx/graphFile.js";
import type { ModelOptions } from "../../types/options.js";
import { isOnnxFolder, openOnnxFolder } from "../../weights/index.js";
import { findFolder } from "./baseModel.js";
import type { ResolvedOptions } from "./options.js";

export interface ServedEncoder {
  /** The name that requests use. */
  readonly id: string;
  readonly encoder: OnnxEncoder;
  /** When its configuration was last written, Unix seconds. */
  readonly created: number;
}

/**
 * Of a folder that holds an encoder in ONNX, or a classifier, its graph; null: it holds something else.
 * @throws ModelFileError
 */
export async function findEncoder(folder: string, model: ModelOptions, variant?: string): Promise<string | null> {
  if (model.onnx === undefined && !(await isOnnxFolder(folder))) return null;
  const { file, config } = await openOnnxFolder(folder, variant);
  if (await graphMentions(file, "past_key_values")) return null;
  // A decoder without a past is refused as what it is.
  const architectures = config.get("architectures") === null ? [] : config.strings("architectures");
  return architectures.some((one) => one.endsWith("ForCausalLM")) ? null : file;
}

/**
 * The encoder that a folder holds; null: it holds something else.
 * @throws ModelFileError for a classifier, or an encoder that cannot be used; UnavailableError without onnxruntime-node.
 */
export async function loadEncoder(model: ModelOptions, options: ResolvedOptions): Promise<ServedEncoder | null> {
  const { folder, name } = await findFolder(model.path);
  const settings = { ...options.onnx, ...model.onnx };
  const file = await findEncoder(folder, model, settings.variant);
  if (file === null) return null;
  const encoder = await OnnxEncoder.open(resolve(folder), { ...settings, threads: options.threads });
  if (encoder.classifies) {
    encoder.close();
    throw new ModelFileError(file, "gives classes, which no request asks for", {
      hint: "take it as a reward model: reward: onnxReward(folder)",
    });
  }
  const { mtimeMs } = await stat(join(folder, "config.json"));
  options.logger.info("encoder loaded", { id: model.id ?? name, bytes: encoder.folder.bytes });
  return { id: model.id ?? name, encoder, created: Math.floor(mtimeMs / 1000) };
}
