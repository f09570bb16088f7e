// Trajectory groups of any size, in a JSON body or in memory: they go to the disk as they come and are read there.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import type * as z from "zod";
import { asDiskFullError } from "../../fileErrors.js";
import { readGroupsBody } from "../../schemas/groupsFile.js";
import { validate } from "../../schemas/validate.js";
import { streamFile } from "../../store/durableFiles.js";
import type { HomeFiles } from "../../store/homeFiles.js";
import { groupLinesAsync } from "../../training/groupSource.js";
import type { TrajectoryGroup } from "../../types/trajectories.js";
import { sizeLeft } from "../../valueSize.js";
import { withTemporaryFile } from "./temporaryFile.js";

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

/** Values inside groups that are few enough to be written at once: a matter of a few milliseconds. */
const MAX_INLINE_VALUES = 10_000;

/** As `withGroupsBody`, for groups in memory; `groups` is null where they are few. @throws ValidationError, DiskFullError */
export async function withGroups<T>(
  files: HomeFiles,
  groups: readonly TrajectoryGroup[],
  use: (groups: string | null) => Promise<T>,
): Promise<T> {
  if (sizeLeft(groups, MAX_INLINE_VALUES) >= 0) return use(null);
  return withTemporaryFile(files, (file) => streamFile(file, groupLinesAsync(groups)), use);
}
