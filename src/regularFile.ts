// Files that somebody else names. Only regular ones are read: a pipe or a device would hold up its reader, or never end.

import { constants, type Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { ModelFileError, systemReason } from "./errors.js";

// Without waiting for whoever writes to a pipe, and without taking a terminal; neither is known to Windows.
const FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOCTTY ?? 0);

/** @throws ModelFileError when it is missing, cannot be opened, or is not a regular file. */
export async function openRegularFile(file: string): Promise<FileHandle> {
  const handle = await open(file, FLAGS).catch((cause: NodeJS.ErrnoException) => {
    const reason = cause.code === "ENOENT" ? "is missing" : systemReason(cause);
    throw new ModelFileError(file, reason, { cause });
  });
  const status = await handle.stat();
  if (status.isFile()) return handle;
  await handle.close();
  throw new ModelFileError(file, `is ${kindOf(status)}, not a regular file`);
}

function kindOf(status: Stats): string {
  if (status.isDirectory()) return "a folder";
  return status.isFIFO() ? "a pipe" : "a device";
}

/** One call reads less than 2^31 bytes: Node ends the process where it is asked for more. */
const MAX_READ_BYTES = 2 ** 30;

/** Fills `to` with what lies at `position`; false where the file ends before. */
export async function readAt(handle: FileHandle, to: Uint8Array, position: number): Promise<boolean> {
  for (let done = 0; done < to.length; ) {
    const length = Math.min(to.length - done, MAX_READ_BYTES);
    const { bytesRead } = await handle.read(to, done, length, position + done);
    if (bytesRead === 0) return false;
    done += bytesRead;
  }
  return true;
}

/** Fills as much of `to` as there is to read next, and says how much that was; 0: the file has ended. @throws ModelFileError of `file`, its name. */
export async function readNext(handle: FileHandle, file: string, to: Uint8Array): Promise<number> {
  try {
    return (await handle.read(to, 0, to.length, null)).bytesRead;
  } catch (cause) {
    throw new ModelFileError(file, systemReason(cause as Error), { cause });
  }
}

/**
 * A whole file that is no longer than `maxBytes`, whatever size it claims.
 * @throws ModelFileError as `openRegularFile` does, for one that cannot be read, and for a longer one.
 */
export async function readRegularFile(file: string, maxBytes: number): Promise<Buffer> {
  const handle = await openRegularFile(file);
  try {
    const { size } = await handle.stat();
    const pieces: Buffer[] = [];
    let length = 0;
    // One byte more than it claims tells the end. Files of the kernel claim none.
    for (let next = size + 1; size <= maxBytes && length <= maxBytes; next = 65_536) {
      const buffer = Buffer.allocUnsafe(next);
      const read = await readNext(handle, file, buffer);
      if (read === 0) return Buffer.concat(pieces);
      pieces.push(buffer.subarray(0, read));
      length += read;
    }
  } finally {
    await handle.close();
  }
  throw new ModelFileError(file, `is larger than ${maxBytes} bytes`);
}
