export { readAdapterFolder, writeAdapterFolder } from "./adapterFolder.js";
export { noModelFolder } from "./noModelFolder.js";
export { readSafetensors, safetensorsPieces, writeSafetensors } from "./safetensors.js";
export { openWeightFolder, type WeightFolder } from "./weightFolder.js";
