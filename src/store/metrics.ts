import type { Database } from "better-sqlite3";
import type { Slice } from "./records.js";

export interface MetricRow {
  /** Larger for what was recorded later. */
  position: number;
  step: number;
  metrics: Record<string, number>;
  recordedAt: number;
}

/** The history of a model: rows are only ever added. */
export interface MetricTable {
  append(modelId: string, step: number, metrics: Record<string, number>): void;
  /** In the order in which they were recorded, those after position `after`; all steps unless one is named. */
  list(modelId: string, query: { step?: number | null; after?: number | null; limit: number }): Slice<MetricRow>;
  /** Adds to a model's running totals. @returns the new value of each that was named. */
  accumulate(modelId: string, amounts: Record<string, number>): Record<string, number>;
  /** @returns how many different scenarios the model has seen, with these. */
  countScenarios(modelId: string, ids: Iterable<string>): number;
}

export function metricTable(database: Database): MetricTable {
  const insert = database.prepare("INSERT INTO metrics (model_id, step, row, recorded_at) VALUES (?, ?, ?, ?)");
  const following = database.prepare<
    [{ model: string; step: number | null; after: number; limit: number }],
    { position: number; step: number; row: string; recorded_at: number }
  >(
    `SELECT position, step, row, recorded_at FROM metrics WHERE model_id = @model AND position > @after
     AND (@step IS NULL OR step = @step) ORDER BY position LIMIT @limit`,
  );
  const add = database.prepare<[string, string, number], { value: number }>(
    `INSERT INTO totals (model_id, name, value) VALUES (?, ?, ?)
     ON CONFLICT (model_id, name) DO UPDATE SET value = value + excluded.value RETURNING value`,
  );
  const addScenario = database.prepare("INSERT OR IGNORE INTO scenarios (model_id, scenario_id) VALUES (?, ?)");
  const countOf = database.prepare<[string], { n: number }>("SELECT COUNT(*) AS n FROM scenarios WHERE model_id = ?");
  return {
    accumulate: database.transaction((modelId: string, amounts: Record<string, number>) =>
      Object.fromEntries(
        Object.entries(amounts).map(([name, amount]) => [name, add.get(modelId, name, amount)!.value]),
      ),
    ),
    countScenarios: database.transaction((modelId: string, ids: Iterable<string>) => {
      for (const id of ids) addScenario.run(modelId, id);
      return countOf.get(modelId)!.n;
    }),
    append(modelId, step, metrics) {
      insert.run(modelId, step, JSON.stringify(metrics), Date.now());
    },
    list(modelId, { step, after, limit }) {
      const rows = following.all({ model: modelId, step: step ?? null, after: after ?? -1, limit: limit + 1 });
      const items = rows.slice(0, limit).map(({ position, step, row, recorded_at }) => ({
        position,
        step,
        metrics: JSON.parse(row) as Record<string, number>,
        recordedAt: recorded_at,
      }));
      return { items, hasMore: rows.length > limit };
    },
  };
}
