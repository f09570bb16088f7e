// A JSON body with trajectory groups, of any size: it goes to the disk as it comes and is read there.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { z } from "zod";
import { asDiskFullError } from "../../fullDisk.js";
import { readGroupsBody } from "../../schemas/groupsFile.js";
import { validate } from "../../schemas/validate.js";
import { streamFile } from "../../store/durableFiles.js";
import type { HomeFiles } from "../../store/homeFiles.js";

/**
 * `use` is given the body's other fields, checked, and the file with the groups, as `groupsInFile` reads it; the file is gone
 * when what it returns has settled.
 * @throws ValidationError, DiskFullError, the signal's reason
 */
export async function withGroupsBody<S extends z.ZodObject, T>(
  files: HomeFiles,
  body: AsyncIterable<Uint8Array>,
  schema: S,
  signal: AbortSignal | undefined,
  use: (request: z.output<S>, groups: string) => Promise<T>,
): Promise<T> {
  const folder = files.temporary();
  try {
    const task = {
      body: join(folder, "body.json"),
      groups: join(folder, "groups.jsonl"),
      fields: Object.keys(schema.shape),
    };
    await streamFile(task.body, body);
    const head = await readGroupsBody(task, signal).catch((error) => {
      throw asDiskFullError(error);
    });
    await rm(task.body);
    return await use(validate(schema, head), task.groups);
  } finally {
    files.remove(folder);
  }
}
