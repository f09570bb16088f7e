import { randomUUID } from "node:crypto";
import type { Database } from "better-sqlite3";
import { NotFoundError } from "../errors.js";
import type { TrainingJobStatus } from "../types/training.js";
import type { JobKind, JobRecord } from "./records.js";

interface Row {
  id: string;
  kind: JobKind;
  model_id: string;
  entity: string;
  status: TrainingJobStatus;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
  step: number | null;
  error: string | null;
  state: string | null;
}

function toRecord(row: Row): JobRecord {
  return {
    id: row.id,
    kind: row.kind,
    modelId: row.model_id,
    entity: row.entity,
    status: row.status,
    createdAt: row.created_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    step: row.step,
    error: row.error,
    state: row.state === null ? null : (JSON.parse(row.state) as unknown),
  };
}

export interface JobTable {
  create(job: { id?: string; kind: JobKind; modelId: string; entity: string }): JobRecord;
  get(id: string): JobRecord | null;
  /** Queued and running ones in the order in which they were made; of one model, or of all. */
  unfinished(modelId?: string): JobRecord[];
  listByModel(modelId: string): JobRecord[];
  /** Only the fields that are given. @throws NotFoundError */
  update(
    id: string,
    fields: Partial<Pick<JobRecord, "status" | "startedAt" | "endedAt" | "step" | "error" | "state">>,
  ): void;
}

export function jobTable(database: Database): JobTable {
  const insert = database.prepare(
    "INSERT INTO jobs (id, kind, model_id, entity, status, created_at) VALUES (?, ?, ?, ?, 'queued', ?)",
  );
  const byId = database.prepare<[string], Row>("SELECT * FROM jobs WHERE id = ?");
  const open = database.prepare<[{ model: string | null }], Row>(
    `SELECT * FROM jobs WHERE status IN ('queued', 'running') AND (@model IS NULL OR model_id = @model)
     ORDER BY position`,
  );
  const ofModel = database.prepare<[string], Row>("SELECT * FROM jobs WHERE model_id = ? ORDER BY position");
  const write = database.prepare(
    `UPDATE jobs SET status = @status, started_at = @startedAt, ended_at = @endedAt, step = @step, error = @error,
     state = @state WHERE id = @id`,
  );
  return {
    create({ id = randomUUID(), kind, modelId, entity }) {
      insert.run(id, kind, modelId, entity, Date.now());
      return toRecord(byId.get(id)!);
    },
    get(id) {
      const row = byId.get(id);
      return row ? toRecord(row) : null;
    },
    unfinished: (modelId) => open.all({ model: modelId ?? null }).map(toRecord),
    listByModel: (modelId) => ofModel.all(modelId).map(toRecord),
    update: database.transaction((id: string, fields: Partial<JobRecord>) => {
      const row = byId.get(id);
      if (!row) throw new NotFoundError(`no training job ${id}`);
      const job = { ...toRecord(row), ...fields };
      write.run({
        id,
        status: job.status,
        startedAt: job.startedAt,
        endedAt: job.endedAt,
        step: job.step,
        error: job.error,
        state: job.state === null || job.state === undefined ? null : JSON.stringify(job.state),
      });
    }),
  };
}
