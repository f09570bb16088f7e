import type { Database } from "better-sqlite3";

export interface MetricRow {
  step: number;
  metrics: Record<string, number>;
  recordedAt: number;
}

/** The history of a model: rows are only ever added. */
export interface MetricTable {
  append(modelId: string, step: number, metrics: Record<string, number>): void;
  list(modelId: string): MetricRow[];
}

export function metricTable(database: Database): MetricTable {
  const insert = database.prepare("INSERT INTO metrics (model_id, step, row, recorded_at) VALUES (?, ?, ?, ?)");
  const all = database.prepare<[string], { step: number; row: string; recorded_at: number }>(
    "SELECT step, row, recorded_at FROM metrics WHERE model_id = ? ORDER BY position",
  );
  return {
    append(modelId, step, metrics) {
      insert.run(modelId, step, JSON.stringify(metrics), Date.now());
    },
    list: (modelId) =>
      all.all(modelId).map((row) => ({
        step: row.step,
        metrics: JSON.parse(row.row) as Record<string, number>,
        recordedAt: row.recorded_at,
      })),
  };
}
