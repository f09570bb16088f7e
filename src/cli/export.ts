import { rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { ValidationError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { ModelExported, ModelExportParams } from "../types/models.js";
import { defineCommand } from "./command.js";
import { engineFlags } from "./engineFlags.js";
import { findModel } from "./findModel.js";
import { choice, givenOnly, text, UsageError } from "./flags.js";
import { json } from "./listing.js";
import { openExistingHome } from "./openHome.js";
import { withExportProgress } from "./progress.js";

const flags = {
  format: choice(
    "FORMAT",
    ["peft", "merged", "safetensors", "onnx", "gguf", "gguf_adapter"],
    "an adapter (the default), a whole model (safetensors: the same), one for ONNX Runtime, one for llama.cpp, or an adapter for it",
  ),
  base: text("NAME", "what the adapter calls its base model (default: the name or folder it was loaded from)"),
  ...engineFlags,
  dtype: givenOnly(
    choice(
      "TYPE",
      ["float32", "bfloat16", "float16", "int8", "int4", "q8_0", "q4_0", "q4_k_m"],
      "of a whole model: merged float32 or bfloat16, gguf these, float16 and q..., both by default as the base model is stored; onnx float32 (default), float16 and int...",
    ),
  ),
  quantize: givenOnly(choice("TYPE", ["q8_0", "q4_0", "q4_k_m"], "the same as --dtype, of gguf alone")),
  weights: choice("TYPE", ["float32", "bfloat16"], "the same as --dtype, of a merged model"),
  json,
};

export const exportModel = defineCommand({
  name: "export",
  arguments: ["NAME[:STEP]", "DIR"],
  summary: "write a checkpoint as a folder for other programs",
  details: `Writes a checkpoint (the latest, or that of :STEP) into DIR, which must not be there or be empty: as an adapter that PEFT and
vLLM load beside its base model, or merged with it into a whole Hugging Face folder, which anneal serves with --model too, or into a
folder of ONNX, which transformers.js loads in browsers too. NAME is PROJECT/NAME, ENTITY/PROJECT/NAME or an id. Works beside a
running server. gguf writes model.gguf, which llama.cpp and what is built on it load.`,
  flags,
  async run(values, [target, folder]) {
    const format = values.format === "safetensors" ? "merged" : (values.format ?? null);
    if (values.quantize !== undefined && format !== "gguf") {
      throw new UsageError(
        `--quantize is of --format gguf: ${values.format ?? "peft"} holds floats, which anneal quantises when it loads them (--quantize there)`,
      );
    }
    const isAdapter = format === null || format === "peft" || format === "gguf_adapter";
    const ofWhole = (["dtype", "weights"] as const).find((name) => values[name] !== undefined);
    if (isAdapter && ofWhole) {
      throw new UsageError(
        `--${ofWhole} is of a whole model (--format merged, onnx or gguf): ${format ?? "peft"} holds the adapter as it was trained`,
      );
    }
    const [, name, step] = /^(.*?)(?:[:@](?:step)?(\d+))?$/.exec(target!)!;
    await using engine = await openExistingHome({ ...values, dtype: undefined, quantize: undefined });
    const { id } = await findModel(engine, name!);
    const made = await withExportProgress(() =>
      exported(engine, id, {
        path: resolve(folder!),
        step: step === undefined ? null : Number(step),
        format,
        base_model: values.base ?? null,
        dtype: values.dtype ?? values.weights ?? values.quantize ?? null,
      }),
    );
    if (values.json) {
      console.log(JSON.stringify(made, null, 2));
      return 0;
    }
    const base = made.format === "peft" ? `, for the base model ${made.base_model}` : "";
    console.log(`step ${made.step} as ${made.path}${base}`);
    for (const warning of made.warnings) console.log(`note: ${warning}`);
    return 0;
  },
});

/** A server writes only under its data roots: then it writes where it may, and the folder is moved. */
async function exported(engine: AnnealClient, id: string, params: ModelExportParams): Promise<ModelExported> {
  const { Engine } = await import("../index.js");
  try {
    return await engine.models.export(id, params);
  } catch (error) {
    if (engine instanceof Engine || !(error instanceof ValidationError) || error.param !== "path") throw error;
    const aside = join(tmpdir(), `anneal-export-${process.pid}`);
    const made = await engine.models.export(id, { ...params, path: aside }).catch(() => {
      throw error;
    });
    return { ...made, path: await moved(aside, params.path) };
  }
}

async function moved(from: string, to: string): Promise<string> {
  try {
    await rename(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    const { cp } = await import("node:fs/promises");
    await cp(from, to, { recursive: true, errorOnExist: true, force: false });
    await rm(from, { recursive: true });
  }
  return to;
}
