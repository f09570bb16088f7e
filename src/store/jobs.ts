import { randomUUID } from "node:crypto";
import type { Database } from "better-sqlite3";
import { NotFoundError } from "../errors.js";
import type { TrainingJobStatus, TrainingRun } from "../types/training.js";
import type { JobKind, JobRecord, Slice } from "./records.js";

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
  run: string | null;
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
    run: row.run === null ? null : (JSON.parse(row.run) as TrainingRun),
  };
}

export interface JobQuery {
  modelId?: string | null;
  entity?: string | null;
  status?: TrainingJobStatus | null;
  after?: string | null;
  limit: number;
  order?: "asc" | "desc";
}

export interface JobTable {
  create(job: { id?: string; kind: JobKind; modelId: string; entity: string; run?: TrainingRun | null }): JobRecord;
  get(id: string): JobRecord | null;
  /** Queued and running ones in the order in which they were made; of one model, or of all. */
  unfinished(modelId?: string): JobRecord[];
  listByModel(modelId: string): JobRecord[];
  /** In the order in which they were made. @throws NotFoundError for an `after` that is no job. */
  list(query: JobQuery): Slice<JobRecord>;
  /** Only the fields that are given. @throws NotFoundError */
  update(
    id: string,
    fields: Partial<Pick<JobRecord, "status" | "startedAt" | "endedAt" | "step" | "error" | "state">>,
  ): void;
}

export function jobTable(database: Database): JobTable {
  const insert = database.prepare(
    "INSERT INTO jobs (id, kind, model_id, entity, status, created_at, run) VALUES (?, ?, ?, ?, 'queued', ?, ?)",
  );
  const byId = database.prepare<[string], Row>("SELECT * FROM jobs WHERE id = ?");
  const open = database.prepare<[{ model: string | null }], Row>(
    `SELECT * FROM jobs WHERE status IN ('queued', 'running') AND (@model IS NULL OR model_id = @model)
     ORDER BY position`,
  );
  const ofModel = database.prepare<[string], Row>("SELECT * FROM jobs WHERE model_id = ? ORDER BY position");
  const positionOf = database.prepare<[string], { position: number }>("SELECT position FROM jobs WHERE id = ?");
  const matching = `(@modelId IS NULL OR model_id = @modelId) AND (@entity IS NULL OR entity = @entity)
     AND (@status IS NULL OR status = @status)`;
  const ascending = database.prepare<[object], Row>(
    `SELECT * FROM jobs WHERE position > @from AND ${matching} ORDER BY position ASC LIMIT @limit`,
  );
  const descending = database.prepare<[object], Row>(
    `SELECT * FROM jobs WHERE position < @from AND ${matching} ORDER BY position DESC LIMIT @limit`,
  );
  const write = database.prepare(
    `UPDATE jobs SET status = @status, started_at = @startedAt, ended_at = @endedAt, step = @step, error = @error,
     state = @state WHERE id = @id`,
  );
  return {
    create({ id = randomUUID(), kind, modelId, entity, run = null }) {
      insert.run(id, kind, modelId, entity, Date.now(), run === null ? null : JSON.stringify(run));
      return toRecord(byId.get(id)!);
    },
    get(id) {
      const row = byId.get(id);
      return row ? toRecord(row) : null;
    },
    unfinished: (modelId) => open.all({ model: modelId ?? null }).map(toRecord),
    list({ modelId = null, entity = null, status = null, after, limit, order = "asc" }) {
      let from = order === "asc" ? -1 : Number.MAX_SAFE_INTEGER;
      if (after) {
        const row = positionOf.get(after);
        if (!row) throw new NotFoundError(`no training job ${after}`, { param: "after" });
        from = row.position;
      }
      const select = order === "asc" ? ascending : descending;
      const rows = select.all({ modelId, entity, status, from, limit: limit + 1 });
      return { items: rows.slice(0, limit).map(toRecord), hasMore: rows.length > limit };
    },
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
