export { PAGE_SIZE } from "./blockPool.js";
export { InferenceLoop, type InferenceLoopOptions, type InferenceStats } from "./inferenceLoop.js";
export type * from "./request.js";
