import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { HomeLockedError } from "../errors.js";
import { makeDatabaseFile, PRIVATE_FILE } from "./homeFolder.js";
import { openDatabase } from "./sqlite.js";

/** Who has a home open. */
interface Holder {
  pid: number;
  /** Processes of different containers may have the same number. */
  host: string | null;
  address: string | null;
}

export interface HomeLock {
  /** Tells processes that find the home locked where its engine can be reached. */
  setAddress(address: string | null): void;
  release(): void;
}

function readHolder(file: string): Holder {
  try {
    const { pid, host, address } = JSON.parse(readFileSync(file, "utf8")) as Partial<Holder>;
    return {
      pid: typeof pid === "number" ? pid : 0,
      host: typeof host === "string" ? host : null,
      address: typeof address === "string" ? address : null,
    };
  } catch {
    return { pid: 0, host: null, address: null };
  }
}

/**
 * How long the lock is tried for, in milliseconds. SQLite takes it in steps, and of two processes that begin together each may
 * find the other on the way: one that holds the lock is not waited for longer than that.
 */
const TRIED_FOR = 100;

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
  const database = openDatabase(file, { timeout: TRIED_FOR });
  const describe = (address: string | null) => {
    const holder: Holder = { pid: process.pid, host: hostname(), address };
    writeFileSync(description, JSON.stringify(holder), { mode: PRIVATE_FILE });
  };
  try {
    database.pragma("journal_mode = DELETE");
    database.exec("BEGIN EXCLUSIVE");
    describe(null);
  } catch (error) {
    database.close();
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) {
      const { pid, host, address } = readHolder(description);
      throw new HomeLockedError(home, pid, address, pid === process.pid && host === hostname());
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
