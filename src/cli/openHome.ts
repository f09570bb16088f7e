import { HomeLockedError, NotFoundError } from "../errors.js";
import { isHome } from "../store/homeFolder.js";
import type { AnnealClient } from "../types/client.js";
import type { EngineOptions } from "../types/options.js";
import { withLoadingProgress } from "./progress.js";

/** An engine of this process. Its code is loaded when a command needs one, not to say how commands are used. */
export async function openEngine(options: EngineOptions) {
  const { Engine } = await import("../engine/engine.js");
  return withLoadingProgress(() => Engine.open(options));
}

/** The engine of a home: opened here, or reached where another process serves it. */
export async function openHome(home: string, options: EngineOptions): Promise<AnnealClient> {
  try {
    return await openEngine({ ...options, home });
  } catch (error) {
    if (!(error instanceof HomeLockedError) || error.address === null) throw error;
    const { connectToHome } = await import("../client/connectToHome.js");
    return connectToHome(home, error.address, options.apiKey);
  }
}

/** The same for commands that only look at what there is, or take away of it. @throws NotFoundError rather than make a home. */
export async function openExistingHome(home: string, options: EngineOptions): Promise<AnnealClient> {
  if (isHome(home)) return openHome(home, options);
  throw new NotFoundError(`there is no home at ${home}`, {
    code: "home_not_found",
    param: "home",
    hint: "name another with --home; anneal serve, train and models create make one",
  });
}
