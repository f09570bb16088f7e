export { readAdapterFolder, writeAdapterFolder } from "./adapterFolder.js";

export { encodeSafetensors, readSafetensors, writeSafetensors } from "./safetensors.js";
export { openWeightFolder, type WeightFolder } from "./weightFolder.js";
