export { readAdapterFolder, writeAdapterFolder } from "./adapterFolder.js";
export { type ModelFolder, readModelFolder } from "./modelFolder.js";
export { encodeSafetensors, readSafetensors, writeSafetensors } from "./safetensors.js";
