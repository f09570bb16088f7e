import type { Database } from "better-sqlite3";

/** How long a response is kept, in milliseconds, and how many an entity has at most: the earliest go first. */
const KEPT_FOR = 30 * 24 * 3600 * 1000;
const MAX_PER_ENTITY = 10_000;

/** A response as it is kept. */
export interface ResponseRecord {
  id: string;
  entity: string;
  previousId: string | null;
  /** JSON list of the items that it was asked with, without those of responses before. */
  input: string;
  /** JSON. */
  response: string;
}

export interface ResponseTable {
  /** Keeps a response, in place of what was kept under its id; by the ids of `outputIds` it is found too. */
  put(record: ResponseRecord, outputIds: readonly string[], isFinished: boolean): void;
  get(id: string): ResponseRecord | null;
  /** The latest of an entity's responses with an output item of this id. */
  findByOutput(entity: string, itemId: string): ResponseRecord | null;
  /** False if there is none. */
  delete(id: string): boolean;
  /** Those that a process has left unfinished have failed. */
  recover(): void;
}

interface Row {
  id: string;
  entity: string;
  previous_id: string | null;
  input: string;
  response: string;
}

const toRecord = ({ id, entity, previous_id, input, response }: Row): ResponseRecord => ({
  id,
  entity,
  previousId: previous_id,
  input,
  response,
});

export function responseTable(database: Database): ResponseTable {
  const insert = database.prepare(
    `INSERT INTO responses (id, entity, previous_id, is_finished, input, response, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET is_finished = excluded.is_finished, response = excluded.response`,
  );
  const insertItem = database.prepare("INSERT OR IGNORE INTO response_items (id, response_id) VALUES (?, ?)");
  const forget = database.prepare("DELETE FROM responses WHERE id = ?");
  const expire = database.prepare("DELETE FROM responses WHERE created_at < ?");
  const trim = database.prepare(
    `DELETE FROM responses WHERE position IN
     (SELECT position FROM responses WHERE entity = ? ORDER BY position DESC LIMIT -1 OFFSET ${MAX_PER_ENTITY})`,
  );
  const byId = database.prepare<[string, number], Row>("SELECT * FROM responses WHERE id = ? AND created_at >= ?");
  const byItem = database.prepare<[string, string, number], Row>(
    `SELECT responses.* FROM response_items JOIN responses ON responses.id = response_items.response_id
     WHERE response_items.id = ? AND entity = ? AND created_at >= ? ORDER BY position DESC LIMIT 1`,
  );
  const failOpen = database.prepare(
    `UPDATE responses SET is_finished = 1, response = json_set(response, '$.status', 'failed', '$.error',
     json_object('code', 'server_error', 'message', 'the process ended before the response did'))
     WHERE NOT is_finished`,
  );
  const since = () => Date.now() - KEPT_FOR;
  return {
    put: database.transaction(
      ({ id, entity, previousId, input, response }: ResponseRecord, outputIds: readonly string[], isFinished) => {
        insert.run(id, entity, previousId, isFinished ? 1 : 0, input, response, Date.now());
        for (const itemId of outputIds) insertItem.run(itemId, id);
        expire.run(since());
        trim.run(entity);
      },
    ),
    get(id) {
      const row = byId.get(id, since());
      return row ? toRecord(row) : null;
    },
    findByOutput(entity, itemId) {
      const row = byItem.get(itemId, entity, since());
      return row ? toRecord(row) : null;
    },
    delete: (id) => forget.run(id).changes > 0,
    recover: () => void failOpen.run(),
  };
}
