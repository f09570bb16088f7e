// What is done with a home from beside its engine: loaded only here, so that an application that opens engines does not pay for it.

import { NotFoundError } from "../errors.js";
import type { HomeBackup, HomeReport } from "../types/home.js";
import { isHome } from "./homeFolder.js";

/**
 * Compares a home with its database: the database's own consistency, every checkpoint's files and their checksums, the folders
 * of artifacts and jobs, and what the database does not know. Changes nothing, and works beside an engine that has the home
 * open. It reads every file, the database in one go.
 * @throws NotFoundError when there is no home; UnavailableError when its database cannot be read at all.
 */
export async function checkHome(home: string): Promise<HomeReport> {
  const loaded = await import("./checkHome.js");
  return loaded.checkHome(home);
}

/**
 * Copies a home to `target`, a new folder, which is a home of its own: the database as it is at one moment, and the files of
 * everything that is in it. Works beside an engine that has the home open; jobs go on from there in either. What is in
 * quarantine is left out.
 * @throws NotFoundError when there is no home; ConflictError when `target` is there already and not empty; ValidationError when
 * it lies in the home or cannot be made; DiskFullError, and UnavailableError with code "file_unusable" or "backup_failed", when
 * it cannot be written.
 */
export async function backupHome(home: string, target: string): Promise<HomeBackup> {
  const loaded = await import("./backupHome.js");
  return loaded.backupHome(home, target);
}

/**
 * Forgets what the weights of a base model were when the home first saw them: those of the next opening are what later ones
 * are compared with (see the option `verify`).
 * @throws NotFoundError when there is no home, or it knows no such model; HomeLockedError when it is open elsewhere.
 */
export async function acceptWeights(home: string, baseModel: string): Promise<void> {
  const missing = (what: string) => new NotFoundError(what, { param: "model" });
  if (!isHome(home)) throw missing(`there is no home at ${home}`);
  const { openStore } = await import("./store.js");
  const store = openStore(home);
  try {
    if (!store.baseWeights.forget(baseModel)) throw missing(`the home knows no base model "${baseModel}"`);
  } finally {
    store.close();
  }
}
