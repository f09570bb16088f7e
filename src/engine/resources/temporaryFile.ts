import { join } from "node:path";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import type { HomeFiles } from "../../store/homeFiles.js";

/**
 * `use` is given the file that `write` has made at the path it was given, and may move it; whatever is left of it is gone when
 * what `use` returns has settled.
 */
export async function withTemporaryFile<T>(
  files: HomeFiles,
  write: (file: string) => Promise<unknown>,
  use: (file: string) => Promise<T>,
): Promise<T> {
  // Making folders waits for the disk, and many may come at once.
  while (shouldYield()) await yieldToEventLoop();
  const folder = files.temporary();
  try {
    const file = join(folder, "content");
    await write(file);
    return await use(file);
  } finally {
    files.remove(folder);
  }
}
