// What tells that a file is still the same, without reading it.

import type { BigIntStats } from "node:fs";

export interface FileStamp {
  /** Changes with the file's content as the file system tells it; it stays when the file is moved. */
  text: string;
  /** Whether the file was last changed so long ago that a further change would show. */
  isSettled: boolean;
}

/** Clocks of file systems move in steps. */
const SETTLED_AFTER_MS = 2000;

export function fileStamp({ dev, ino, size, mtimeMs, mtimeNs, ctimeMs, ctimeNs }: BigIntStats): FileStamp {
  const settled = BigInt(Date.now() - SETTLED_AFTER_MS);
  return {
    text: [dev, ino, size, mtimeNs, ctimeNs].join(" "),
    isSettled: mtimeMs <= settled && ctimeMs <= settled,
  };
}
