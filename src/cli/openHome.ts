import { connectToHome } from "../client/connectToHome.js";
import { Engine } from "../engine/engine.js";
import { HomeLockedError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { EngineOptions } from "../types/options.js";
import { withLoadingProgress } from "./progress.js";

/** The engine of a home: opened here, or reached where another process serves it. */
export async function openHome(home: string, options: EngineOptions): Promise<AnnealClient> {
  try {
    return await withLoadingProgress(() => Engine.open({ ...options, home }));
  } catch (error) {
    if (!(error instanceof HomeLockedError) || error.address === null) throw error;
    return connectToHome(home, error.address, options.apiKey);
  }
}
