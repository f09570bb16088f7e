import { join } from "node:path";
import { streamFile } from "../../store/durableFiles.js";
import type { HomeFiles } from "../../store/homeFiles.js";

/**
 * `use` is given a flushed file that holds `chunks`, and may move it; whatever is left of it is gone when what `use` returns
 * has settled. @throws DiskFullError
 */
export async function withTemporaryFile<T>(
  files: HomeFiles,
  chunks: AsyncIterable<Uint8Array>,
  use: (file: string) => Promise<T>,
): Promise<T> {
  const folder = files.temporary();
  try {
    const file = join(folder, "content");
    await streamFile(file, chunks);
    return await use(file);
  } finally {
    files.remove(folder);
  }
}
