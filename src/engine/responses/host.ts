// What responses need of the engine around them.

import { chatHost } from "../chat/host.js";
import type { EngineCore } from "../core/core.js";
import { BackgroundResponses } from "./background.js";
import type { MakingHost } from "./making.js";

export interface ResponseHost extends MakingHost {
  readonly background: BackgroundResponses;
}

const hosts = new WeakMap<EngineCore, ResponseHost>();

/** One of an engine, whoever asks. */
export function responseHost(core: EngineCore): ResponseHost {
  let host = hosts.get(core);
  if (host === undefined) {
    // Clients of this interface take calls for granted.
    const { toolParser } = core.options;
    host = {
      chat: { ...chatHost(core), toolParser: toolParser === "none" ? "auto" : toolParser },
      get store() {
        return core.store;
      },
      background: new BackgroundResponses(core.closing),
      report: (error) => core.options.logger.error("a response made in the background could not be kept", { error }),
    };
    hosts.set(core, host);
  }
  return host;
}
