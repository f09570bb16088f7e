import type { Database } from "better-sqlite3";
import { ConflictError } from "../errors.js";
import { migrations } from "./migrations.js";

/**
 * Brings a database to the newest version, all steps in one transaction: after a crash it is at the old version or at the new.
 * @throws ConflictError when the database was written by a newer version of this library.
 */
export function migrate(database: Database, file: string, steps: readonly string[] = migrations): void {
  const version = database.pragma("user_version", { simple: true }) as number;
  if (version > steps.length) {
    throw new ConflictError(`${file} has version ${version}, this library knows versions up to ${steps.length}`, {
      code: "home_too_new",
      param: "home",
      hint: "update anneal, or name another home",
    });
  }
  if (version === steps.length) return;
  database.transaction(() => {
    for (const step of steps.slice(version)) database.exec(step);
    database.pragma(`user_version = ${steps.length}`);
  })();
}
