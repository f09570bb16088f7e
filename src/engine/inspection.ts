import type { ModelInspection } from "../types/inspection.js";
import type { ModelOptions } from "../types/options.js";

/**
 * What a model is and needs, from the files of its folder alone.
 * @param model a folder, a GGUF file, or a model of the hub that was pulled
 * @param options how it is loaded, where that is not the default: its memory depends on it
 * @throws ModelFileError naming what is wrong with the folder; with code "encoder" for one that replies to nobody.
 */
export async function inspectModel(
  model: string,
  options: Pick<ModelOptions, "dtype" | "quantize" | "kvCache" | "onnx"> = {},
): Promise<ModelInspection> {
  // Loaded only here: an application that opens engines does not pay for it.
  const loaded = await import("./core/inspectModel.js");
  return loaded.inspectModel(model, options);
}
