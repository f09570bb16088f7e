import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { AuthenticationError, HomeLockedError, NotFoundError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { EngineOptions } from "../types/options.js";
import { defaultHome } from "../userFolder.js";
import { engineFlags, homeFlags, isGiven, readEngineOptions } from "./engineFlags.js";
import { UsageError, type Values } from "./flags.js";
import { withLoadingProgress } from "./progress.js";

/** An engine of this process. Its code is loaded when a command needs one, not to say how commands are used. */
export async function openEngine(options: EngineOptions) {
  const { Engine } = await import("../index.js");
  return withLoadingProgress(() => Engine.open(options));
}

type EngineValues = Values<typeof engineFlags>;

/**
 * For an engine that is open already, `where`. What the environment says is meant for those that are opened here.
 * @throws UsageError naming the options of a command line that only the opening of an engine takes.
 */
export function refuseEngineFlags(values: EngineValues, where: string, hint: string): void {
  const given = (Object.keys(engineFlags) as (keyof EngineValues)[]).filter(
    (name) => !(name in homeFlags) && isGiven(values, name),
  );
  if (given.length === 0) return;
  const names = given.map((name) => `--${name}`).join(", ");
  throw new UsageError(`${names}: decided by ${where} when it was opened`, hint);
}

/** The engine of a home: opened here, or reached where another process serves it. @throws UsageError as `refuseEngineFlags`. */
export async function openHome(values: EngineValues): Promise<AnnealClient> {
  const home = values.home ?? defaultHome();
  try {
    return await openEngine({ ...readEngineOptions(values), home });
  } catch (error) {
    if (!(error instanceof HomeLockedError) || error.address === null) throw error;
    refuseEngineFlags(
      values,
      `the engine that serves ${home} at ${error.address}`,
      `leave them out, or end that process (${error.pid})`,
    );
    return connectToHome(home, error.address, values["api-key"]);
  }
}

/** The same for commands that only look at what there is, or take away of it. @throws NotFoundError rather than make a home. */
export async function openExistingHome(values: EngineValues): Promise<AnnealClient> {
  const home = values.home ?? defaultHome();
  const { isHome } = await import("../index.js");
  if (isHome(home)) return openHome(values);
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
