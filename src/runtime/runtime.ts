// The room of computing as others see it.

export type * from "./device.js";
export { PUT_OFF, WIDE_FORMAT } from "./device.js";
export type * from "./grammar.js";
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
