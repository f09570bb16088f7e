import { randomUUID } from "node:crypto";
import type { Database } from "better-sqlite3";
import type { ModelRecord } from "./records.js";

interface Row {
  id: string;
  entity: string;
  project: string;
  name: string;
  base_model: string;
  run_id: string;
  optimizer: string | null;
  created_at: number;
}

function toRecord(row: Row): ModelRecord {
  const { id, entity, project, name } = row;
  const optimizer: unknown = row.optimizer === null ? null : JSON.parse(row.optimizer);
  return {
    id,
    entity,
    project,
    name,
    baseModel: row.base_model,
    runId: row.run_id,
    optimizer,
    createdAt: row.created_at,
  };
}

export interface ModelTable {
  create(
    model: Pick<ModelRecord, "entity" | "project" | "name" | "baseModel"> & { id?: string; optimizer?: unknown },
  ): ModelRecord;
  get(id: string): ModelRecord | null;
  find(entity: string, project: string, name: string): ModelRecord | null;
  /** In order of creation. */
  list(filter?: { entity?: string; name?: string }): ModelRecord[];
  /** Also its checkpoints, trajectories and metrics; false if there was none. */
  delete(id: string): boolean;
}

export function modelTable(database: Database): ModelTable {
  const insert = database.prepare(
    "INSERT INTO models (id, entity, project, name, base_model, run_id, optimizer, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const byId = database.prepare<[string], Row>("SELECT * FROM models WHERE id = ?");
  const byName = database.prepare<[string, string, string], Row>(
    "SELECT * FROM models WHERE entity = ? AND project = ? AND name = ?",
  );
  const all = database.prepare<[{ entity: string | null; name: string | null }], Row>(
    `SELECT * FROM models WHERE (@entity IS NULL OR entity = @entity) AND (@name IS NULL OR name = @name)
     ORDER BY created_at, rowid`,
  );
  const remove = database.prepare<[string]>("DELETE FROM models WHERE id = ?");
  return {
    create({ id = randomUUID(), entity, project, name, baseModel, optimizer = null }) {
      const record: ModelRecord = {
        id,
        entity,
        project,
        name,
        baseModel,
        runId: randomUUID().replaceAll("-", "").slice(0, 8),
        optimizer,
        createdAt: Date.now(),
      };
      const settings = optimizer === null ? null : JSON.stringify(optimizer);
      insert.run(record.id, entity, project, name, baseModel, record.runId, settings, record.createdAt);
      return record;
    },
    get(id) {
      const row = byId.get(id);
      return row ? toRecord(row) : null;
    },
    find(entity, project, name) {
      const row = byName.get(entity, project, name);
      return row ? toRecord(row) : null;
    },
    list({ entity, name } = {}) {
      return all.all({ entity: entity ?? null, name: name ?? null }).map(toRecord);
    },
    delete: (id) => remove.run(id).changes > 0,
  };
}

/** What the weights of base models were when this home first saw them, and when they were last read. */
export interface BaseWeightsTable {
  /** The hash that is kept for a base model; `hash` from now on if there is none yet. */
  recordOnce(id: string, hash: string): string;
  /** What weights hashed to whose files had this stamp when they were last read; null: they had another. */
  lastRead(id: string, stamp: string): string | null;
  recordReading(id: string, stamp: string, hash: string): void;
  /** The next opening reads the weights. */
  forgetReading(id: string): void;
  /** The next opening reads and records the weights that it finds. False: nothing was kept for that model. */
  forget(id: string): boolean;
}

export function baseWeightsTable(database: Database): BaseWeightsTable {
  const insert = database.prepare("INSERT INTO base_weights (base_model, hash, recorded_at) VALUES (?, ?, ?)");
  const find = database.prepare<[string], string>("SELECT hash FROM base_weights WHERE base_model = ?").pluck();
  const remove = database.prepare("DELETE FROM base_weights WHERE base_model = ?");
  const read = database
    .prepare<[string, string], string>("SELECT hash FROM read_weights WHERE base_model = ? AND stamp = ?")
    .pluck();
  const setRead = database.prepare("INSERT OR REPLACE INTO read_weights (base_model, stamp, hash) VALUES (?, ?, ?)");
  const removeRead = database.prepare("DELETE FROM read_weights WHERE base_model = ?");
  return {
    recordOnce(id, hash) {
      const known = find.get(id);
      if (known !== undefined) return known;
      insert.run(id, hash, Date.now());
      return hash;
    },
    lastRead: (id, stamp) => read.get(id, stamp) ?? null,
    recordReading: (id, stamp, hash) => void setRead.run(id, stamp, hash),
    forgetReading: (id) => void removeRead.run(id),
    forget(id) {
      removeRead.run(id);
      return remove.run(id).changes > 0;
    },
  };
}
