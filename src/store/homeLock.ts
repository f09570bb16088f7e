import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HomeLockedError } from "../errors.js";
import { makeDatabaseFile, PRIVATE_FILE } from "./homeFolder.js";
import { openDatabase } from "./sqlite.js";

/** Who has a home open. */
interface Holder {
  pid: number;
  address: string | null;
}

export interface HomeLock {
  /** Tells processes that find the home locked where its engine can be reached. */
  setAddress(address: string | null): void;
  release(): void;
}

function readHolder(file: string): Holder {
  try {
    const { pid, address } = JSON.parse(readFileSync(file, "utf8")) as Partial<Holder>;
    return { pid: typeof pid === "number" ? pid : 0, address: typeof address === "string" ? address : null };
  } catch {
    return { pid: 0, address: null };
  }
}

/**
 * Takes a home for this process. The lock is the operating system's, held through an open transaction on `lock.db`,
 * so that it ends with the process however that ends, and a process number used again means nothing. `lock.json` beside
 * it only says who holds it.
 *
 * @throws HomeLockedError with the holder's process id and, if it serves, its address.
 */
export function lockHome(home: string): HomeLock {
  const description = join(home, "lock.json");
  const file = join(home, "lock.db");
  makeDatabaseFile(file);
  const database = openDatabase(file, { timeout: 0 });
  const describe = (address: string | null) =>
    writeFileSync(description, JSON.stringify({ pid: process.pid, address } satisfies Holder), { mode: PRIVATE_FILE });
  try {
    database.pragma("journal_mode = DELETE");
    database.exec("BEGIN EXCLUSIVE");
    describe(null);
  } catch (error) {
    database.close();
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) {
      const { pid, address } = readHolder(description);
      throw new HomeLockedError(home, pid, address);
    }
    throw error;
  }
  return {
    setAddress: describe,
    release() {
      rmSync(description, { force: true });
      database.close();
    },
  };
}
