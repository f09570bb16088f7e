// What an engine is made of, loaded when the first one is opened.

export { openCore } from "./core/openCore.js";
export { resolveOptions } from "./core/options.js";
export { openRemote } from "./core/remoteBase.js";
export { health, inferenceMetrics, systemCheck } from "./resources/health.js";
export { callerOfKey } from "./resources/keys.js";
export { Resources } from "./resources/resources.js";
