// SQLite, loaded with the first database that is opened: what opens none does without it.

import type Database from "better-sqlite3";
import { UnavailableError } from "../errors.js";
import { packageRequire } from "../packageFiles.js";

let Sqlite: typeof Database | undefined;
/** undefined: it finds its binary itself. */
let nativeBinding: string | undefined;

/** @throws UnavailableError `sqlite_missing` where SQLite itself cannot be loaded; SqliteError for the file. */
export function openDatabase(file: string, options: Database.Options = {}): Database.Database {
  Sqlite ??= loadSqlite();
  return new Sqlite(file, { ...options, nativeBinding });
}

function loadSqlite(): typeof Database {
  try {
    const manifest = packageRequire("better-sqlite3/package.json") as Manifest;
    checkNode(manifest);
    const installed = packageRequire("better-sqlite3") as typeof Database;
    const loaded = endsWhenCollected(manifest, process.versions.node) ? keepingObjects(installed) : installed;
    nativeBinding = builtBinding();
    // Its binary is loaded by the first database.
    new loaded(":memory:", { nativeBinding }).close();
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

/** Its binary where an installation puts it, which it would look for at length. */
function builtBinding(): string | undefined {
  try {
    return packageRequire.resolve("better-sqlite3/build/Release/better_sqlite3.node");
  } catch {
    return undefined;
  }
}

interface Manifest {
  version: string;
  engines: { node: string };
}

const majorOf = (version: string): number => Number.parseInt(version.replace(/^\D*/, ""), 10);

/** A binary for a later Node ends the process when it is loaded. */
function checkNode({ version, engines }: Manifest): void {
  const least = majorOf(engines.node);
  if (majorOf(process.versions.node) >= least) return;
  throw new Error(`better-sqlite3 ${version} needs Node ${least} or later; this is ${process.version}`);
}

/**
 * Since Node 24 the class that objects of better-sqlite3 before 13 are of has a destructor that ends the process where V8 collects
 * one between two pieces of an application's code ("Assertion failed: (env) != nullptr" in `RemoveEnvironmentCleanupHook`).
 */
export const endsWhenCollected = ({ version }: Pick<Manifest, "version">, node: string): boolean =>
  majorOf(version) < 13 && majorOf(node) >= 24;

interface NativeDatabase {
  prepare(source: string, database: Database.Database, isPragma: boolean): unknown;
  backup(...given: unknown[]): unknown;
}

/** The same databases, of which nothing is ever collected; a pragma that is asked for again is the same statement. */
export function keepingObjects(sqlite: typeof Database, kept: unknown[] = []): typeof Database {
  return class extends (sqlite as unknown as new (file: string, options: Database.Options) => object) {
    constructor(file: string, options: Database.Options) {
      super(file, options);
      const natives = Object.getOwnPropertySymbols(this).map((name) => Reflect.get(this, name) as unknown);
      for (const native of natives.filter((one): one is NativeDatabase => typeof one === "object" && one !== null)) {
        const pragmas = new Map<string, unknown>();
        const prepare = native.prepare.bind(native);
        native.prepare = (source, database, isPragma) => {
          const known = isPragma ? pragmas.get(source) : undefined;
          if (known !== undefined) return known;
          const statement = prepare(source, database, isPragma);
          if (isPragma) pragmas.set(source, statement);
          kept.push(statement);
          return statement;
        };
        const backup = native.backup.bind(native);
        native.backup = (...given) => {
          const begun = backup(...given);
          kept.push(begun);
          return begun;
        };
        kept.push(native);
      }
    }
  } as unknown as typeof Database;
}
