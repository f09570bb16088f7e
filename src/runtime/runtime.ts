// The room of computing as others see it.

export type * from "./device.js";
export { PUT_OFF } from "./device.js";
export type * from "./grammar.js";
export type * from "./modelSpec.js";
export { WIDE_FORMAT } from "./modelSpec.js";
export {
  adapterTensors,
  compileGrammar,
  listGpus,
  measureGpu,
  openRuntime,
  pipelinesOf,
  policyLoss,
  prepareVocabulary,
  quantizedFormats,
  quantizeNumbers,
  restorePipelines,
  weightTensors,
} from "./nativeRuntime.js";
export { OnnxDecoder } from "./onnx/onnxDecoder.js";
export type * from "./policyLoss.js";
export type * from "./trainer.js";
