// Logged trajectory groups, read back as they were written: of any size, a row of the home's database at a time.

import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import { JsonCursor } from "../../jsonCursor.js";
import type { LoggedGroupRecord } from "../../store/trajectories.js";
import type { LoggedGroup, Trajectory, TrajectoryGroup } from "../../types/trajectories.js";

export const groupIdPrefix = "group-";

/** `rows` as the store gives them. */
type Rows = Iterable<string>;

/** All that is said of a group beside it. */
export function describeGroup({ position, step, split, recordedAt }: LoggedGroupRecord): Omit<LoggedGroup, "group"> {
  return { id: `${groupIdPrefix}${position}`, step, split, recorded_at: new Date(recordedAt).toISOString() };
}

/** Made in turns. */
export async function readGroup(rows: Rows): Promise<TrajectoryGroup> {
  let group: TrajectoryGroup | null = null;
  for (const text of rows) {
    if (group === null) group = JSON.parse(text) as TrajectoryGroup;
    else for (const trajectory of JSON.parse(text) as Trajectory[]) group.trajectories.push(trajectory);
    while (shouldYield()) await yieldToEventLoop();
  }
  return group!;
}

/** A page of them as JSON, in pieces: they are never in memory together. */
export function* groupsPageText(
  items: readonly LoggedGroupRecord[],
  hasMore: boolean,
  rowsOf: (position: number) => Rows,
): Generator<string> {
  const described = items.map(describeGroup);
  yield '{"object":"list","data":[';
  for (const [i, item] of items.entries()) {
    yield `${i === 0 ? "" : ","}${JSON.stringify(described[i]).slice(0, -1)},"group":`;
    yield* groupText(rowsOf(item.position));
    yield "}";
  }
  const ends = { has_more: hasMore, first_id: described[0]?.id ?? "", last_id: described.at(-1)?.id ?? "" };
  yield `],${JSON.stringify(ends).slice(1)}`;
}

/** Further trajectories go to the end of the group's own. */
function* groupText(rows: Rows): Generator<string> {
  let tail: string | null = null;
  let isEmpty = true;
  for (const text of rows) {
    if (tail === null) {
      const bytes = Buffer.from(text);
      const { last, count } = trajectoriesIn(bytes);
      yield bytes.toString("utf8", 0, last);
      tail = bytes.toString("utf8", last);
      isEmpty = count === 0;
    } else if (text.length > "[]".length) {
      yield `${isEmpty ? "" : ","}${text.slice(1, -1)}`;
      isEmpty = false;
    }
  }
  yield tail!;
}

/** Where in a group's JSON the list of its trajectories closes, and how many these are. */
function trajectoriesIn(group: Buffer): { last: number; count: number } {
  const cursor = new JsonCursor(group);
  for (const field of cursor.fields()) {
    if (field !== "trajectories") {
      cursor.skip();
      continue;
    }
    let count = 0;
    for (const _ of cursor.elements()) {
      cursor.skip();
      count++;
    }
    return { last: cursor.at - 1, count };
  }
  throw new Error("a logged group has no trajectories");
}
