import { randomUUID } from "node:crypto";
import type { Database } from "better-sqlite3";
import type { HomeFiles } from "./homeFiles.js";

/** Whole weights that training has made, served as a base model. */
export interface SavedModelRecord {
  /** The name that requests use. */
  name: string;
  /** Names its folder in the home. */
  id: string;
  /** The model that was trained; null: it has been deleted since. */
  modelId: string | null;
  createdAt: number;
}

export interface SavedModelTable {
  /** Announces a folder that is about to be written: what a crash leaves of it is removed by the next opening. */
  announce(name: string, modelId: string): SavedModelRecord;
  /** The folder is whole: from now on the name stands for it. @returns what the name stood for before. */
  keep(id: string): SavedModelRecord | null;
  find(name: string): SavedModelRecord | null;
  /** What was last saved of a model. */
  latestOf(modelId: string): SavedModelRecord | null;
  /** In the order in which they were saved. */
  list(): SavedModelRecord[];
  /** Also of those that are being written. */
  ids(): Set<string>;
  /** Its row, and its folder; what a crash leaves of it goes with the next opening. */
  remove(id: string): void;
  /** Removes what no name stands for. */
  recover(): void;
}

interface Row {
  id: string;
  name: string;
  model_id: string | null;
  created_at: number;
}

const toRecord = ({ id, name, model_id, created_at }: Row): SavedModelRecord => ({
  id,
  name,
  modelId: model_id,
  createdAt: created_at,
});

export function savedModelTable(
  database: Database,
  files: Pick<HomeFiles, "savedModelFolder" | "remove">,
): SavedModelTable {
  const insert = database.prepare(
    "INSERT INTO saved_models (id, name, model_id, is_kept, created_at) VALUES (?, ?, ?, 0, ?)",
  );
  const release = database.prepare("UPDATE saved_models SET is_kept = 0 WHERE name = ?");
  const mark = database.prepare("UPDATE saved_models SET is_kept = 1 WHERE id = ?");
  const abandon = database.prepare("UPDATE saved_models SET is_kept = 0 WHERE id = ?");
  const forget = database.prepare("DELETE FROM saved_models WHERE id = ?");
  const byId = database.prepare<[string], Row>("SELECT * FROM saved_models WHERE id = ?");
  const byName = database.prepare<[string], Row>("SELECT * FROM saved_models WHERE is_kept AND name = ?");
  const newest = database.prepare<[string], Row>(
    "SELECT * FROM saved_models WHERE is_kept AND model_id = ? ORDER BY position DESC LIMIT 1",
  );
  const kept = database.prepare<[], Row>("SELECT * FROM saved_models WHERE is_kept ORDER BY position");
  const all = database.prepare<[], string>("SELECT id FROM saved_models").pluck();
  const abandoned = database.prepare<[], Row>("SELECT * FROM saved_models WHERE NOT is_kept");
  const find = (name: string) => {
    const row = byName.get(name);
    return row ? toRecord(row) : null;
  };
  const remove = (id: string) => {
    abandon.run(id);
    files.remove(files.savedModelFolder(id));
    forget.run(id);
  };
  return {
    announce(name, modelId) {
      const id = randomUUID();
      insert.run(id, name, modelId, Date.now());
      return toRecord(byId.get(id)!);
    },
    keep(id) {
      const { name } = byId.get(id)!;
      const before = find(name);
      release.run(name);
      mark.run(id);
      return before;
    },
    find,
    latestOf(modelId) {
      const row = newest.get(modelId);
      return row ? toRecord(row) : null;
    },
    list: () => kept.all().map(toRecord),
    ids: () => new Set(all.all()),
    remove,
    recover() {
      for (const { id } of abandoned.all()) remove(id);
    },
  };
}
