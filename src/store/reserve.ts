// Room on the disk that a home keeps back: what deletes something writes to the database before it frees anything.

import { randomBytes } from "node:crypto";
import { existsSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDiskFull } from "../fileErrors.js";
import { PRIVATE_FILE } from "./homeFolder.js";

/** Of the log: enough to delete some 20 MB of trajectories. */
const RESERVED_BYTES = 2 ** 20;
/** Of the disk, before the reserve is taken. */
const LEFT_TO_OTHERS = 4 * RESERVED_BYTES;

export interface Reserve {
  /** Takes it again, if it is not there, or not whole, and the disk has room. */
  take(): void;
  /** What `action` gives, which writes all or nothing: where the disk is full, in its second try, for which the reserve goes. */
  lentTo<T>(action: () => T): T;
}

export function reserveOf(home: string): Reserve {
  const file = join(home, "reserve");
  return {
    take() {
      try {
        // A process that was ended while it took it leaves less.
        if (statSync(file, { throwIfNoEntry: false })?.size === RESERVED_BYTES) return;
        const { bavail, bsize } = statfsSync(home);
        if (bavail * bsize < LEFT_TO_OTHERS) return;
        // Of bytes that no disk makes smaller.
        writeFileSync(file, randomBytes(RESERVED_BYTES), { mode: PRIVATE_FILE });
      } catch {
        rmSync(file, { force: true });
      }
    },
    lentTo(action) {
      try {
        return action();
      } catch (error) {
        if (!isDiskFull(error) || !existsSync(file)) throw error;
      }
      rmSync(file);
      return action();
    },
  };
}
