import type { Database } from "better-sqlite3";
import { yieldToEventLoop } from "../eventLoop.js";
import type { Trajectory, TrajectoryGroup } from "../types/trajectories.js";
import type { Slice } from "./records.js";

/** Rows of a batch that are removed at once. */
const DISCARDED_AT_ONCE = 16;

interface Row {
  position: number;
  step: number;
  split: string;
  trajectory_group: string;
  recorded_at: number;
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

/** A group as JSON; or, as a JSON list, further trajectories of the group before. */
export interface TrajectoryRow {
  text: string;
  continues: boolean;
}

/** Groups that are written in several transactions and are there all at once. */
export interface TrajectoryBatch {
  add(rows: readonly TrajectoryRow[]): void;
  /** From now on all that was added is there. */
  finish(): void;
  /** Nothing of it has ever been there; after `finish` without effect. */
  discard(): Promise<void>;
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
    "INSERT INTO trajectories (model_id, step, split, trajectory_group, recorded_at, batch, continues) VALUES (?, ?, ?, ?, ?, ?, ?)",
  );
  const begin = database.prepare("INSERT INTO unfinished_batches DEFAULT VALUES");
  const finish = database.prepare("DELETE FROM unfinished_batches WHERE id = ?");
  const isUnfinished = database.prepare("SELECT 1 FROM unfinished_batches WHERE id = ?").pluck();
  const someRows = database.prepare(
    `DELETE FROM trajectories WHERE position IN
     (SELECT position FROM trajectories WHERE position > @after AND batch = @id ORDER BY position LIMIT ${DISCARDED_AT_ONCE})`,
  );
  const lastPosition = database.prepare<[], number | null>("SELECT MAX(position) FROM trajectories").pluck();
  /** Of a batch whose rows lie after `after`. */
  function* discard(id: number | bigint, after: number): Generator<void> {
    if (!isUnfinished.get(id)) return;
    while (someRows.run({ id, after }).changes > 0) yield;
    finish.run(id);
  }
  for (const { id } of database.prepare<[], { id: number }>("SELECT id FROM unfinished_batches").all()) {
    for (const _ of discard(id, -1));
  }
  const furtherOf = database
    .prepare<[number], string>("SELECT trajectory_group FROM trajectories WHERE continues = ? ORDER BY position")
    .pluck();
  const toRecord = ({ position, step, split, trajectory_group, recorded_at }: Row): LoggedGroupRecord => {
    const group = JSON.parse(trajectory_group) as TrajectoryGroup;
    for (const text of furtherOf.iterate(position)) {
      for (const trajectory of JSON.parse(text) as Trajectory[]) group.trajectories.push(trajectory);
    }
    return { position, step, split, group, recordedAt: recorded_at };
  };
  const following = database.prepare<
    [{ model: string; after: number; limit: number } & Required<TrajectoryFilter>],
    Row
  >(
    `SELECT * FROM trajectories WHERE model_id = @model AND position > @after AND continues IS NULL
     AND (@step IS NULL OR step = @step) AND (@split IS NULL OR split = @split)
     AND (batch IS NULL OR batch NOT IN (SELECT id FROM unfinished_batches)) ORDER BY position LIMIT @limit`,
  );
  const rowsAfter = (modelId: string, { step, split }: TrajectoryFilter, after: number, limit: number) =>
    following.all({ model: modelId, step: step ?? null, split: split ?? null, after, limit }).map(toRecord);
  return {
    add: database.transaction((modelId: string, step: number, split: string, groups: readonly TrajectoryGroup[]) => {
      const now = Date.now();
      for (const group of groups) insert.run(modelId, step, split, JSON.stringify(group), now, null, null);
    }),
    batch(modelId, step, split) {
      const after = lastPosition.get() ?? -1;
      const id = begin.run().lastInsertRowid;
      const now = Date.now();
      let group: number | bigint | null = null;
      return {
        add: database.transaction((rows: readonly TrajectoryRow[]) => {
          for (const { text, continues } of rows) {
            const { lastInsertRowid } = insert.run(modelId, step, split, text, now, id, continues ? group : null);
            if (!continues) group = lastInsertRowid;
          }
        }),
        finish: () => void finish.run(id),
        async discard() {
          if (!database.open) return;
          for (const _ of discard(id, after)) {
            await yieldToEventLoop();
            if (!database.open) return;
          }
        },
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
