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
  /** Adds to a model's running totals. @returns the new value of each that was named. */
  accumulate(modelId: string, amounts: Record<string, number>): Record<string, number>;
  /** @returns how many different scenarios the model has seen, with these. */
  countScenarios(modelId: string, ids: Iterable<string>): number;
}

export function metricTable(database: Database): MetricTable {
  const insert = database.prepare("INSERT INTO metrics (model_id, step, row, recorded_at) VALUES (?, ?, ?, ?)");
  const all = database.prepare<[string], { step: number; row: string; recorded_at: number }>(
    "SELECT step, row, recorded_at FROM metrics WHERE model_id = ? ORDER BY position",
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
    list: (modelId) =>
      all.all(modelId).map((row) => ({
        step: row.step,
        metrics: JSON.parse(row.row) as Record<string, number>,
        recordedAt: row.recorded_at,
      })),
  };
}
