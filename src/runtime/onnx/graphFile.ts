import { open } from "node:fs/promises";

/** Operators, inputs and outputs stand before or after weights; in graphs whose weights lie inside, so far is looked. */
const MAX_SEARCHED_BYTES = 64 * 2 ** 20;

/** Whether a graph's file names an operator or a value, at its beginning or its end. */
export async function graphMentions(file: string, name: string): Promise<boolean> {
  const handle = await open(file);
  try {
    const { size } = await handle.stat();
    const piece = Buffer.alloc(Math.min(MAX_SEARCHED_BYTES, size));
    for (const from of new Set([0, size - piece.length])) {
      const { bytesRead } = await handle.read(piece, 0, piece.length, from);
      if (piece.subarray(0, bytesRead).includes(name)) return true;
    }
    return false;
  } finally {
    await handle.close();
  }
}
