import type { DeviceModel, Runtime } from "../../src/runtime/runtime.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";

/** Loads a model folder in bfloat16, with `kvPages` pages of 64 positions. */
export async function loadFolder(runtime: Runtime, folder: string, kvPages: number): Promise<DeviceModel> {
  const { config, tensors } = await openWeightFolder(folder);
  return runtime.load({ config, tensors, dtype: "bfloat16", kvPages });
}
