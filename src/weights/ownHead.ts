import type { FileHandle } from "node:fs/promises";
import { ModelFileError } from "../errors.js";
import { openRegularFile, readAt } from "../regularFile.js";
import type { FoundTensor } from "./packedWeights.js";

const PIECE_BYTES = 2 ** 20;

/** Whether a head is stored that is no copy of the embedding: it counts, also where config.json says that they are one. */
export async function hasOwnHead(tensors: ReadonlyMap<string, FoundTensor>): Promise<boolean> {
  const head = tensors.get("lm_head.weight");
  const embedding = tensors.get("model.embed_tokens.weight");
  if (!head || !embedding) return false;
  if (head.dtype !== embedding.dtype || head.bytes !== embedding.bytes) return true;
  const handles: FileHandle[] = [];
  try {
    for (const { file } of [head, embedding]) handles.push(await openRegularFile(file));
    for (let done = 0; done < head.bytes; done += PIECE_BYTES) {
      const [own, other] = [await piece(handles[0]!, head, done), await piece(handles[1]!, embedding, done)];
      if (!own.equals(other)) return true;
    }
    return false;
  } finally {
    for (const handle of handles) await handle.close();
  }
}

async function piece(handle: FileHandle, { file, offset, bytes }: FoundTensor, done: number): Promise<Buffer> {
  const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, bytes - done));
  if (await readAt(handle, piece, offset + done)) return piece;
  throw new ModelFileError(file, "became shorter while it was read");
}
