import type { Database } from "better-sqlite3";
import type { TrajectoryGroup } from "../types/trajectories.js";

export interface TrajectoryTable {
  add(modelId: string, step: number, split: string, groups: readonly TrajectoryGroup[]): void;
  /** In the order in which they were logged; all splits and steps unless named. */
  read(
    modelId: string,
    filter?: { step?: number; split?: string },
  ): IterableIterator<{ step: number; split: string; group: TrajectoryGroup; recordedAt: number }>;
}

export function trajectoryTable(database: Database): TrajectoryTable {
  const insert = database.prepare(
    "INSERT INTO trajectories (model_id, step, split, trajectory_group, recorded_at) VALUES (?, ?, ?, ?, ?)",
  );
  // Rows are fetched one by one by position, so that the database is not busy while the caller reads.
  const next = database.prepare<
    [{ model: string; position: number; step: number | null; split: string | null }],
    { position: number; step: number; split: string; trajectory_group: string; recorded_at: number }
  >(
    `SELECT * FROM trajectories WHERE model_id = @model AND position > @position
     AND (@step IS NULL OR step = @step) AND (@split IS NULL OR split = @split) ORDER BY position LIMIT 1`,
  );
  return {
    add: database.transaction((modelId: string, step: number, split: string, groups: readonly TrajectoryGroup[]) => {
      const now = Date.now();
      for (const group of groups) insert.run(modelId, step, split, JSON.stringify(group), now);
    }),
    *read(modelId, { step, split } = {}) {
      let position = -1;
      for (;;) {
        const row = next.get({ model: modelId, position, step: step ?? null, split: split ?? null });
        if (!row) return;
        position = row.position;
        const group = JSON.parse(row.trajectory_group) as TrajectoryGroup;
        yield { step: row.step, split: row.split, group, recordedAt: row.recorded_at };
      }
    },
  };
}
