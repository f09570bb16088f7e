import type { Database } from "better-sqlite3";
import type { TrajectoryGroup } from "../types/trajectories.js";
import type { Slice } from "./records.js";

interface Row {
  position: number;
  step: number;
  split: string;
  trajectory_group: string;
  recorded_at: number;
}

function toRecord({ position, step, split, trajectory_group, recorded_at }: Row): LoggedGroupRecord {
  return { position, step, split, group: JSON.parse(trajectory_group) as TrajectoryGroup, recordedAt: recorded_at };
}

export interface TrajectoryFilter {
  step?: number | null;
  split?: string | null;
}

export interface LoggedGroupRecord {
  /** Larger for what was logged later. */
  position: number;
  step: number;
  split: string;
  group: TrajectoryGroup;
  recordedAt: number;
}

/** Groups that are written in several transactions and are there all at once. */
export interface TrajectoryBatch {
  /** JSON texts of groups. */
  add(groups: readonly string[]): void;
  /** From now on all that was added is there. */
  finish(): void;
  /** Nothing of it has ever been there; after `finish` without effect. */
  discard(): void;
}

export interface TrajectoryTable {
  add(modelId: string, step: number, split: string, groups: readonly TrajectoryGroup[]): void;
  /** For more groups than should be written at once. What no `finish` followed is gone when the home is opened again. */
  batch(modelId: string, step: number, split: string): TrajectoryBatch;
  /** In the order in which they were logged; all splits and steps unless named. */
  read(modelId: string, filter?: TrajectoryFilter): IterableIterator<LoggedGroupRecord>;
  /** The same, a slice at a time: those after position `after`. */
  list(modelId: string, query: TrajectoryFilter & { after?: number | null; limit: number }): Slice<LoggedGroupRecord>;
}

export function trajectoryTable(database: Database): TrajectoryTable {
  const insert = database.prepare(
    "INSERT INTO trajectories (model_id, step, split, trajectory_group, recorded_at, batch) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const begin = database.prepare("INSERT INTO unfinished_batches DEFAULT VALUES");
  const finish = database.prepare("DELETE FROM unfinished_batches WHERE id = ?");
  const rowsOf = database.prepare("DELETE FROM trajectories WHERE batch = ?");
  const discard = database.transaction((id: number | bigint) => {
    if (finish.run(id).changes > 0) rowsOf.run(id);
  });
  for (const { id } of database.prepare<[], { id: number }>("SELECT id FROM unfinished_batches").all()) discard(id);
  const following = database.prepare<
    [{ model: string; after: number; limit: number } & Required<TrajectoryFilter>],
    Row
  >(
    `SELECT * FROM trajectories WHERE model_id = @model AND position > @after
     AND (@step IS NULL OR step = @step) AND (@split IS NULL OR split = @split)
     AND (batch IS NULL OR batch NOT IN (SELECT id FROM unfinished_batches)) ORDER BY position LIMIT @limit`,
  );
  const rowsAfter = (modelId: string, { step, split }: TrajectoryFilter, after: number, limit: number) =>
    following.all({ model: modelId, step: step ?? null, split: split ?? null, after, limit }).map(toRecord);
  return {
    add: database.transaction((modelId: string, step: number, split: string, groups: readonly TrajectoryGroup[]) => {
      const now = Date.now();
      for (const group of groups) insert.run(modelId, step, split, JSON.stringify(group), now, null);
    }),
    batch(modelId, step, split) {
      const id = begin.run().lastInsertRowid;
      const now = Date.now();
      return {
        add: database.transaction((groups: readonly string[]) => {
          for (const group of groups) insert.run(modelId, step, split, group, now, id);
        }),
        finish: () => void finish.run(id),
        discard: () => void (database.open && discard(id)),
      };
    },
    *read(modelId, filter = {}) {
      // One by one, so that the database is not busy while the caller reads.
      for (let after = -1; ; ) {
        const [record] = rowsAfter(modelId, filter, after, 1);
        if (!record) return;
        after = record.position;
        yield record;
      }
    },
    list(modelId, { after, limit, ...filter }) {
      const records = rowsAfter(modelId, filter, after ?? -1, limit + 1);
      return { items: records.slice(0, limit), hasMore: records.length > limit };
    },
  };
}
