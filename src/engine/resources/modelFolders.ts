// Models from folders of other programs, and as folders for them.

import { existsSync, readdirSync, rmdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { ADAPTER_MODULES, type AdapterModule } from "../../adapterModules.js";
import { ValidationError } from "../../errors.js";
import { throwingFileErrors } from "../../fileErrors.js";
import { isGguf } from "../../gguf/ggufFile.js";
import type { VocabularySource } from "../../gguf/vocabularyMetadata.js";
import { makePartOf } from "../../makeFolders.js";
import { QUANTIZATIONS } from "../../modelChoices.js";
import { writeOnnxFolder } from "../../onnx/writeOnnxFolder.js";
import { flushTree, moveFolder } from "../../store/durableFiles.js";
import { readTokenizerFolder } from "../../text/index.js";
import { putOnDevice, readAdapter, toWrite, writeCheckpoint } from "../../training/checkpointFiles.js";
import type { ModelExported, ModelExportParams } from "../../types/models.js";
import { writeAdapterFolder } from "../../weights/adapterFolder.js";
import { familyNamed } from "../../weights/families.js";
import { openWeightFiles } from "../../weights/index.js";
import { writeMergedFolder } from "../../weights/mergedFolder.js";
import { readModelConfig } from "../../weights/modelConfig.js";
import { writeGgufAdapter, writeGgufModel } from "../../weights/writeGgufModel.js";
import type { BaseModel } from "../core/baseModel.js";
import { diagnostics } from "../core/diagnostics.js";
import { embeddedModel } from "../core/options.js";

/**
 * Copies a PEFT adapter into an empty folder, as a checkpoint of a model on `base`.
 * @throws ModelFileError when it is no such adapter, does not fit the base model, or is a checkpoint of another.
 */
export async function importAdapter(base: BaseModel, source: string, folder: string): Promise<void> {
  const { spec, tensors: values } = await readAdapter(source, base, "elsewhere");
  base.device.releaseAdapter(await putOnDevice(base, source, spec, values));
  await writeCheckpoint(folder, toWrite({ spec, values, optimizer: null }), base, { parent_step: null, job_id: null });
}

/**
 * Writes the adapter in `checkpoint` to `target`, which is there whole or not at all.
 * @throws ValidationError at `path` when something is there already, or nothing can be; ModelFileError when the checkpoint is damaged.
 */
export const exportCheckpoint = throwingFileErrors(
  ([, target]) => target,
  async (
    checkpoint: string,
    target: string,
    base: BaseModel,
    { format = "peft", base_model, dtype, max_shard_bytes }: Omit<ModelExportParams, "path" | "step">,
    signal?: AbortSignal,
  ): Promise<Pick<ModelExported, "path" | "format" | "base_model" | "warnings">> => {
    checkFree(target);
    const warnings: string[] = [];
    const hasAlso = (hash: string) => isQuantisedFolder(base.folder, hash);
    const { id, hash, device } = base;
    const adapter = await readAdapter(checkpoint, { id, hash, device, hasAlso }, "checkpoint");
    const name = base_model ?? resolvableName(base);
    const temporary = makePartOf("path", target);
    try {
      const maxBytes = max_shard_bytes ?? undefined;
      const onProgress = (done: number, bytes: number) =>
        diagnostics.exportProgress.publish({ path: target, fraction: done / bytes, bytes });
      if (format === "merged") {
        const type = dtype ? { dtype: oneOf(["float32", "bfloat16"], dtype, format) } : {};
        const options = { ...type, maxShardBytes: maxBytes, signal, onProgress };
        await writeMergedFolder(temporary, base.folder, adapter, options);
      } else if (format === "onnx") {
        const type = dtype ? { dtype: oneOf(["float32", "float16", "int8", "int4"], dtype, format) } : {};
        await writeOnnxFolder(temporary, base.folder, adapter, { ...type, maxFileBytes: maxBytes, signal });
      } else if (format === "gguf") {
        const type = dtype ? { dtype: oneOf(GGUF_DTYPES, dtype, format) } : {};
        const vocabulary = await vocabularySource(base);
        const options = { ...type, name: basename(target), vocabulary, signal, onProgress };
        const { splitsAlike } = await writeGgufModel(join(temporary, "model.gguf"), base.folder, adapter, options);
        if (!splitsAlike) warnings.push(SPLITS_OTHERWISE);
      } else if (format === "gguf_adapter") {
        await writeGgufAdapter(join(temporary, "adapter.gguf"), base.folder, base.config, adapter, signal);
      } else {
        const type = (await readModelConfig(base.folder)).string("model_type");
        await writeAdapterFolder(temporary, adapter.spec, adapter.tensors, name, type);
        const isFedForward = (target: string) => ADAPTER_MODULES[target as AdapterModule][0] === "mlp";
        if (familyNamed(type)?.experts && adapter.spec.targets.some(isFedForward)) warnings.push(TAKEN_FOR_EXPERTS);
      }
      await flushTree(temporary);
      signal?.throwIfAborted();
      checkFree(target);
      if (existsSync(target)) rmdirSync(target);
      moveFolder(temporary, target);
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
    return { path: target, format: format ?? "peft", base_model: name, warnings };
  },
);

/**
 * Whether the weights of a folder hash to that as they are, or quantised while they are loaded. What is written is the adapter, or
 * made of the folder's own numbers, however these are served.
 */
async function isQuantisedFolder(folder: string, hash: string): Promise<boolean> {
  for (const quantization of [undefined, ...QUANTIZATIONS]) {
    const weights = await openWeightFiles(folder, quantization).catch(() => null);
    if (weights && (await weights.content.hash()) === hash) return true;
  }
  return false;
}

const GGUF_DTYPES = ["float32", "float16", "bfloat16", "q8_0", "q4_0", "q4_k_m"] as const;

const SPLITS_OTHERWISE =
  "llama.cpp has no name for how this model's tokenizer splits texts, and reads them otherwise: give it token ids. anneal reads the file as it is.";

const TAKEN_FOR_EXPERTS =
  "peft takes gate_proj, up_proj and down_proj of this model for its experts', beside transformers 5 and later, and leaves those of its other layers out: export it as merged. anneal reads the adapter as it is.";

async function vocabularySource({ folder, tokenizer, generationConfig }: BaseModel): Promise<VocabularySource> {
  const { tokenizer: whole, vocabulary, addedTokens, specialTokens, chatTemplates } = await readTokenizerFolder(folder);
  const ends = generationConfig.eos_token_id;
  const { eosId, bosId } = tokenizer;
  const endIds = eosId !== null && ends.includes(eosId) ? [eosId, ...ends.filter((id) => id !== eosId)] : ends;
  const ids = tokenizer.encode("a", { addSpecialTokens: true });
  return {
    file: isGguf(folder) ? folder : join(folder, "tokenizer.json"),
    tokenizer: whole,
    vocabulary,
    addedTokens,
    specialTokens,
    chatTemplates,
    addsBos: bosId !== null && ids[0] === bosId,
    addsEos: endIds.length > 0 && ids.at(-1) === endIds[0],
    endIds,
  };
}

/** @throws ValidationError at `dtype` for one that a format does not have. */
function oneOf<T extends string>(known: readonly T[], dtype: string, format: string): T {
  const found = known.find((one) => one === dtype);
  if (found !== undefined) return found;
  throw ValidationError.at("dtype", `is "${dtype}"; of the format "${format}" there are ${known.join(", ")}`);
}

function checkFree(target: string): void {
  if (!existsSync(target)) return;
  let entries: string[];
  try {
    entries = readdirSync(target);
  } catch {
    throw ValidationError.at("path", `${target} is no folder`);
  }
  if (entries.length === 0) return;
  throw ValidationError.at("path", `${target} is not empty`, "value_error", { code: "folder_not_empty" });
}

/**
 * What other programs find the base model by: its id where that is one of a hub (`owner/name`), else its folder on this
 * machine.
 */
function resolvableName({ id, folder }: BaseModel): string {
  return id.includes("/") && id !== embeddedModel.id ? id : folder;
}
