import type { Database } from "better-sqlite3";
import { NotFoundError } from "../errors.js";
import { yieldToEventLoop } from "../eventLoop.js";
import { jsonText } from "../json.js";
import type { TrajectoryGroup } from "../types/trajectories.js";
import type { Slice } from "./records.js";

/** Rows of a batch that are removed at once. */
const DISCARD_BATCH = 16;

interface Row {
  position: number;
  step: number;
  split: string;
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
  /** In the order in which they were logged, those after position `after`; all splits and steps unless named. */
  list(modelId: string, query: TrajectoryFilter & { after?: number | null; limit: number }): Slice<LoggedGroupRecord>;
  /**
   * What a group holds, of any size: the group as JSON, then JSON lists of further trajectories of it. Each is read when it
   * is asked for. @throws NotFoundError where it has been deleted meanwhile
   */
  rows(position: number): Generator<string>;
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
     (SELECT position FROM trajectories WHERE position > @after AND batch = @id ORDER BY position LIMIT ${DISCARD_BATCH})`,
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
    .prepare<[number], number>("SELECT position FROM trajectories WHERE continues = ? ORDER BY position")
    .pluck();
  const textOf = database
    .prepare<[number], string>("SELECT trajectory_group FROM trajectories WHERE position = ?")
    .pluck();
  const following = database.prepare<
    [{ model: string; after: number; limit: number } & Required<TrajectoryFilter>],
    Row
  >(
    `SELECT position, step, split, recorded_at FROM trajectories WHERE model_id = @model AND position > @after AND continues IS NULL
     AND (@step IS NULL OR step = @step) AND (@split IS NULL OR split = @split)
     AND (batch IS NULL OR batch NOT IN (SELECT id FROM unfinished_batches)) ORDER BY position LIMIT @limit`,
  );
  return {
    add: database.transaction((modelId: string, step: number, split: string, groups: readonly TrajectoryGroup[]) => {
      const now = Date.now();
      for (const group of groups) insert.run(modelId, step, split, jsonText(group), now, null, null);
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
    list(modelId, { step, split, after, limit }) {
      const page = { model: modelId, step: step ?? null, split: split ?? null, after: after ?? -1, limit: limit + 1 };
      const records = following.all(page).map(({ recorded_at, ...rest }) => ({ ...rest, recordedAt: recorded_at }));
      return { items: records.slice(0, limit), hasMore: records.length > limit };
    },
    *rows(position) {
      for (const at of [position, ...furtherOf.all(position)]) {
        const text = textOf.get(at);
        if (text === undefined) throw new NotFoundError("the model has been deleted", { code: "model_not_found" });
        yield text;
      }
    },
  };
}
