import type { Database } from "better-sqlite3";

/** What the weights of base models were when this home first saw them. */
export interface BaseWeightsTable {
  /** The hash that is kept for a base model; `hash` from now on if there is none yet. */
  recordOnce(id: string, hash: string): string;
  /** The next opening records the weights that it finds. False: nothing was kept for that model. */
  forget(id: string): boolean;
}

export function baseWeightsTable(database: Database): BaseWeightsTable {
  const insert = database.prepare(
    "INSERT OR IGNORE INTO base_weights (base_model, hash, recorded_at) VALUES (?, ?, ?)",
  );
  const find = database.prepare<[string], string>("SELECT hash FROM base_weights WHERE base_model = ?").pluck();
  const remove = database.prepare("DELETE FROM base_weights WHERE base_model = ?");
  return {
    recordOnce(id, hash) {
      insert.run(id, hash, Date.now());
      return find.get(id)!;
    },
    forget: (id) => remove.run(id).changes > 0,
  };
}
