import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { isOnnxFolder } from "./onnxFolder.js";

// As the hub has BAAI/bge-small-en-v1.5 and SmolLM2: both kinds of weights beside each other.
it.each([
  [true, "bert", ["model.onnx"]],
  [true, "llama", ["model.onnx"]],
  [false, "llama", ["model.onnx", "model.safetensors"]],
  [false, "gemma3", ["model.onnx", "model.safetensors.index.json"]],
  [true, "bert", ["model.onnx", "model.safetensors"]],
  [false, "bert", ["model.safetensors"]],
  [false, undefined, ["model.onnx", "model.safetensors"]],
])("is %s of the type %s with %j", async (wanted, model_type, files) => {
  const folder = mkdtempSync(join(tmpdir(), "anneal-onnx-"));
  writeFileSync(join(folder, "config.json"), JSON.stringify({ model_type }));
  for (const file of files) writeFileSync(join(folder, file), "");
  expect(await isOnnxFolder(folder)).toBe(wanted);
  rmSync(folder, { recursive: true });
});
