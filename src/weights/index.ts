export { readAdapterFolder, readAdapterSpec, writeAdapterFolder } from "./adapterFolder.js";
export { type EmbeddingSpec, readEmbeddingFolder } from "./embeddingFolder.js";
export { JsonFields } from "./jsonFields.js";
export { readModelConfig } from "./modelConfig.js";
export { noModelFolder } from "./noModelFolder.js";
export { isOnnxFolder, openOnnxFolder } from "./onnxFolder.js";
export { readSafetensors } from "./safetensors.js";
export { openWeightFiles, openWeightFolder, type WeightFolder } from "./weightFolder.js";
