import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { AuthenticationError, HomeLockedError, NotFoundError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { EngineOptions } from "../types/options.js";
import { withLoadingProgress } from "./progress.js";

/** An engine of this process. Its code is loaded when a command needs one, not to say how commands are used. */
export async function openEngine(options: EngineOptions) {
  const { Engine } = await import("../index.js");
  return withLoadingProgress(() => Engine.open(options));
}

/** The engine of a home: opened here, or reached where another process serves it. */
export async function openHome(home: string, options: EngineOptions): Promise<AnnealClient> {
  try {
    return await openEngine({ ...options, home });
  } catch (error) {
    if (!(error instanceof HomeLockedError) || error.address === null) throw error;
    return connectToHome(home, error.address, options.apiKey);
  }
}

/** The same for commands that only look at what there is, or take away of it. @throws NotFoundError rather than make a home. */
export async function openExistingHome(home: string, options: EngineOptions): Promise<AnnealClient> {
  const { isHome } = await import("../index.js");
  if (isHome(home)) return openHome(home, options);
  throw new NotFoundError(`there is no home at ${home}`, {
    code: "home_not_found",
    param: "home",
    hint: "name another with --home; anneal serve, train and models create make one",
  });
}

/**
 * The engine that another process serves from a home of this user, with the owner's key that is kept there.
 * @throws AuthenticationError when that key is not readable and none is given.
 */
async function connectToHome(home: string, address: string, apiKey?: string): Promise<AnnealClient> {
  const file = join(home, "owner-key");
  const key = apiKey ?? (await readFile(file, "utf8").catch(() => null))?.trim();
  if (!key) {
    throw new AuthenticationError(`${file} cannot be read, so the engine at ${address} needs a key to be named`, {
      hint: "give --api-key",
    });
  }
  const { Engine } = await import("../index.js");
  return Engine.connect(address, { apiKey: key });
}
