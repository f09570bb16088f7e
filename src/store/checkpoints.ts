import { randomUUID } from "node:crypto";
import type { Database } from "better-sqlite3";
import { NotFoundError } from "../errors.js";
import type { CheckpointRecord, Slice } from "./records.js";

interface Row {
  id: string;
  model_id: string;
  step: number;
  job_id: string | null;
  metrics: string;
  created_at: number;
}

function toRecord(row: Row): CheckpointRecord {
  return {
    id: row.id,
    modelId: row.model_id,
    step: row.step,
    jobId: row.job_id,
    metrics: JSON.parse(row.metrics) as Record<string, number>,
    createdAt: row.created_at,
  };
}

export interface CheckpointTable {
  /** Its folder must have been committed before. */
  create(checkpoint: {
    modelId: string;
    step: number;
    jobId?: string | null;
    metrics?: Record<string, number>;
  }): CheckpointRecord;
  /** By step. @throws NotFoundError for an `after` that is no checkpoint of the model. */
  list(
    modelId: string,
    query: { after?: string | null; limit: number; order?: "asc" | "desc" },
  ): Slice<CheckpointRecord>;
  /** Of all models. */
  all(): { modelId: string; step: number }[];
  /** Every step, ascending. */
  steps(modelId: string): number[];
  latest(modelId: string): CheckpointRecord | null;
  get(modelId: string, step: number): CheckpointRecord | null;
  /** @returns the steps that existed. */
  delete(modelId: string, steps: readonly number[]): number[];
  /** Adds to a checkpoint's metrics; a name already there takes the new value. */
  mergeMetrics(modelId: string, step: number, metrics: Record<string, number>): void;
}

export function checkpointTable(database: Database): CheckpointTable {
  const insert = database.prepare(
    "INSERT INTO checkpoints (id, model_id, step, job_id, metrics, created_at) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const stepOf = database.prepare<[string, string], { step: number }>(
    "SELECT step FROM checkpoints WHERE model_id = ? AND id = ?",
  );
  const ascending = database.prepare<[string, number, number], Row>(
    "SELECT * FROM checkpoints WHERE model_id = ? AND step > ? ORDER BY step ASC LIMIT ?",
  );
  const descending = database.prepare<[string, number, number], Row>(
    "SELECT * FROM checkpoints WHERE model_id = ? AND step < ? ORDER BY step DESC LIMIT ?",
  );
  const allSteps = database.prepare<[string], { step: number }>(
    "SELECT step FROM checkpoints WHERE model_id = ? ORDER BY step",
  );
  const everything = database.prepare<[], { modelId: string; step: number }>(
    "SELECT model_id AS modelId, step FROM checkpoints",
  );
  const newest = database.prepare<[string], Row>(
    "SELECT * FROM checkpoints WHERE model_id = ? ORDER BY step DESC LIMIT 1",
  );
  const byStep = database.prepare<[string, number], Row>("SELECT * FROM checkpoints WHERE model_id = ? AND step = ?");
  const remove = database.prepare<[string, number]>("DELETE FROM checkpoints WHERE model_id = ? AND step = ?");
  const update = database.prepare<[string, string]>("UPDATE checkpoints SET metrics = ? WHERE id = ?");

  const table: CheckpointTable = {
    create({ modelId, step, jobId = null, metrics = {} }) {
      const record: CheckpointRecord = { id: randomUUID(), modelId, step, jobId, metrics, createdAt: Date.now() };
      insert.run(record.id, modelId, step, jobId, JSON.stringify(metrics), record.createdAt);
      return record;
    },
    list(modelId, { after, limit, order = "asc" }) {
      let start = order === "asc" ? -1 : Number.MAX_SAFE_INTEGER;
      if (after) {
        const row = stepOf.get(modelId, after);
        if (!row) throw new NotFoundError(`no checkpoint ${after} of this model`, { param: "after" });
        start = row.step;
      }
      const rows = (order === "asc" ? ascending : descending).all(modelId, start, limit + 1);
      return { items: rows.slice(0, limit).map(toRecord), hasMore: rows.length > limit };
    },
    all: () => everything.all(),
    steps: (modelId) => allSteps.all(modelId).map((row) => row.step),
    latest(modelId) {
      const row = newest.get(modelId);
      return row ? toRecord(row) : null;
    },
    get(modelId, step) {
      const row = byStep.get(modelId, step);
      return row ? toRecord(row) : null;
    },
    delete: database.transaction((modelId: string, steps: readonly number[]) =>
      [...new Set(steps)].filter((step) => remove.run(modelId, step).changes > 0),
    ),
    mergeMetrics: database.transaction((modelId: string, step: number, metrics: Record<string, number>) => {
      const row = byStep.get(modelId, step);
      if (!row) throw new NotFoundError(`the model has no checkpoint at step ${step}`, { param: "step" });
      update.run(JSON.stringify({ ...(JSON.parse(row.metrics) as object), ...metrics }), row.id);
    }),
  };
  return table;
}
