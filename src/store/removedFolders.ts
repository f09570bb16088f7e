import { join, relative, resolve } from "node:path";
import type { Database } from "better-sqlite3";
import { isDiskFull } from "../fileErrors.js";
import type { HomeFiles } from "./homeFiles.js";

/** Folders whose rows are deleted: what a crash leaves of them goes with the next opening. */
export interface RemovedFolders {
  /** In the transaction that deletes the rows. */
  announce(folder: string): void;
  /** Removes one that was announced. */
  remove(folder: string): void;
  /** Those that are still there, relative to the home. */
  paths(): Set<string>;
  /** Removes what is still there. */
  recover(): void;
}

export function removedFolders(database: Database, home: string, files: Pick<HomeFiles, "remove">): RemovedFolders {
  const insert = database.prepare("INSERT OR IGNORE INTO removed_folders (path) VALUES (?)");
  const forget = database.prepare("DELETE FROM removed_folders WHERE path = ?");
  const all = database.prepare<[], string>("SELECT path FROM removed_folders").pluck();
  const pathOf = (folder: string) => relative(resolve(home), resolve(folder));
  const remove = (folder: string) => {
    files.remove(folder);
    try {
      forget.run(pathOf(folder));
    } catch (error) {
      // The folder is gone, which the next opening finds.
      if (!isDiskFull(error)) throw error;
    }
  };
  return {
    announce: (folder) => void insert.run(pathOf(folder)),
    remove,
    paths: () => new Set(all.all()),
    recover() {
      for (const path of all.all()) {
        try {
          remove(join(home, path));
        } catch {
          // Of another user's file, say: it is tried again.
        }
      }
    },
  };
}
