import { randomUUID } from "node:crypto";
import type { Database } from "better-sqlite3";
import { NotFoundError } from "../errors.js";
import type { TrainingEventType } from "../types/training.js";
import type { EventRecord, NewEvent, Slice } from "./records.js";

interface Row {
  position: number;
  id: string;
  job_id: string;
  type: TrainingEventType;
  data: string;
  created_at: number;
}

function toRecord(row: Row): EventRecord {
  return {
    id: row.id,
    jobId: row.job_id,
    type: row.type,
    data: JSON.parse(row.data) as Record<string, unknown>,
    createdAt: row.created_at,
  };
}

export interface EventTable {
  append(jobId: string, event: NewEvent): EventRecord;
  /** In the order in which they happened. @throws NotFoundError for an `after` that is no event of the job. */
  list(jobId: string, query: { after?: string | null; limit: number }): Slice<EventRecord>;
  count(jobId: string, type: TrainingEventType): number;
  terminal(jobId: string): EventRecord | null;
  /** Called with each event of a job once it is durable. @returns how to stop. */
  subscribe(jobId: string, listener: (event: EventRecord) => void): () => void;
}

/** `afterCommit` runs its argument when the transaction that is open, if any, has been committed. */
export function eventTable(database: Database, afterCommit: (action: () => void) => void): EventTable {
  const insert = database.prepare("INSERT INTO events (id, job_id, type, data, created_at) VALUES (?, ?, ?, ?, ?)");
  const positionOf = database.prepare<[string, string], { position: number }>(
    "SELECT position FROM events WHERE job_id = ? AND id = ?",
  );
  const following = database.prepare<[string, number, number], Row>(
    "SELECT * FROM events WHERE job_id = ? AND position > ? ORDER BY position LIMIT ?",
  );
  const counted = database.prepare<[string, string], { n: number }>(
    "SELECT COUNT(*) AS n FROM events WHERE job_id = ? AND type = ?",
  );
  const last = database.prepare<[string], Row>(
    "SELECT * FROM events WHERE job_id = ? AND type IN ('training_ended', 'training_failed')",
  );
  const listeners = new Map<string, Set<(event: EventRecord) => void>>();
  return {
    append(jobId, { type, data }) {
      const event: EventRecord = { id: randomUUID(), jobId, type, data, createdAt: Date.now() };
      insert.run(event.id, jobId, type, JSON.stringify(data), event.createdAt);
      afterCommit(() => {
        for (const listener of [...(listeners.get(jobId) ?? [])]) listener(event);
      });
      return event;
    },
    list(jobId, { after, limit }) {
      let start = -1;
      if (after) {
        const row = positionOf.get(jobId, after);
        if (!row) throw new NotFoundError(`no event ${after} of this job`, { param: "after" });
        start = row.position;
      }
      const rows = following.all(jobId, start, limit + 1);
      return { items: rows.slice(0, limit).map(toRecord), hasMore: rows.length > limit };
    },
    count: (jobId, type) => counted.get(jobId, type)!.n,
    terminal(jobId) {
      const row = last.get(jobId);
      return row ? toRecord(row) : null;
    },
    subscribe(jobId, listener) {
      const set = listeners.get(jobId) ?? new Set();
      listeners.set(jobId, set.add(listener));
      return () => {
        set.delete(listener);
        if (set.size === 0 && listeners.get(jobId) === set) listeners.delete(jobId);
      };
    },
  };
}
