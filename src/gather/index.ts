export { gather, RolloutError } from "./gather.js";
export { train } from "./train.js";
