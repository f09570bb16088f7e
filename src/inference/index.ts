export { InferenceLoop, type InferenceLoopOptions, type InferenceStats } from "./inferenceLoop.js";
export { PAGE_SIZE } from "./pagePool.js";
export type * from "./request.js";
