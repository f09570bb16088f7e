// SQLite, loaded with the first database that is opened: what opens none does without it.

import type Database from "better-sqlite3";
import { UnavailableError } from "../errors.js";
import { packageRequire } from "../packageFiles.js";

let Sqlite: typeof Database | undefined;

/** @throws UnavailableError `sqlite_missing` where SQLite itself cannot be loaded; SqliteError for the file. */
export function openDatabase(file: string, options: Database.Options = {}): Database.Database {
  Sqlite ??= loadSqlite();
  return new Sqlite(file, options);
}

function loadSqlite(): typeof Database {
  try {
    checkNode(packageRequire("better-sqlite3/package.json"));
    const loaded = packageRequire("better-sqlite3") as typeof Database;
    // Its binary is loaded by the first database.
    new loaded(":memory:").close();
    return loaded;
  } catch (cause) {
    const reason = (cause as Error).message.split("\n")[0]!;
    throw new UnavailableError(`SQLite, which keeps the home, cannot be loaded: ${reason}`, {
      code: "sqlite_missing",
      hint:
        process.versions.bun || process.versions.deno
          ? "run it in Node: better-sqlite3 does not load in Bun and Deno, which can use an engine through its server"
          : "install the package better-sqlite3 again, for this platform and version of Node",
      cause,
    });
  }
}

/** A binary for a later Node ends the process when it is loaded. */
function checkNode({ version, engines }: { version: string; engines: { node: string } }): void {
  const least = Number.parseInt(engines.node.replace(/^\D*/, ""), 10);
  if (Number.parseInt(process.versions.node, 10) >= least) return;
  throw new Error(`better-sqlite3 ${version} needs Node ${least} or later; this is ${process.version}`);
}
