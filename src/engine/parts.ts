// What an engine is made of, loaded when the first one is opened.

export { openCore } from "./core/openCore.js";
export { resolveOptions } from "./core/options.js";
export { health, inferenceMetrics, systemCheck } from "./resources/health.js";
export { callerOfKey } from "./resources/keys.js";
export { Resources } from "./resources/resources.js";

/** Few engines are computed elsewhere. */
export const openRemote: typeof import("./core/remoteBase.js").openRemote = async (url, options) =>
  (await import("./core/remoteBase.js")).openRemote(url, options);
