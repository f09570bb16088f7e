import { createHash, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import type { Database } from "better-sqlite3";
import type { KeyRecord } from "./records.js";

interface Row {
  id: string;
  hash: string;
  prefix: string;
  entity: string;
  name: string | null;
  created_at: number;
  revoked_at: number | null;
}

function toRecord(row: Row): KeyRecord {
  const { id, prefix, entity, name } = row;
  return { id, prefix, entity, name, createdAt: row.created_at, revokedAt: row.revoked_at };
}

const digest = (key: string) => createHash("sha256").update(key).digest("hex");

/** A new key: 192 random bits. */
export const makeKey = () => `ann-${randomBytes(24).toString("base64url")}`;

/** Equality that takes the same time wherever the two differ. */
export function equalSecrets(left: string, right: string): boolean {
  return timingSafeEqual(Buffer.from(digest(left)), Buffer.from(digest(right)));
}

/** Keys given to others. Only a key's hash is kept. */
export interface KeyTable {
  create(options: { entity: string; name?: string | null }): { key: string; record: KeyRecord };
  list(): KeyRecord[];
  /** False if there is no such key; a key that was revoked before stays so. */
  revoke(id: string): boolean;
  /** The record of a key that may be used. */
  find(key: string): KeyRecord | null;
}

export function keyTable(database: Database): KeyTable {
  const insert = database.prepare(
    "INSERT INTO keys (id, hash, prefix, entity, name, created_at) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const all = database.prepare<[], Row>("SELECT * FROM keys ORDER BY created_at, rowid");
  const byHash = database.prepare<[string], Row>("SELECT * FROM keys WHERE hash = ? AND revoked_at IS NULL");
  const revoke = database.prepare<[number, string]>(
    "UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?",
  );
  return {
    create({ entity, name = null }) {
      const key = makeKey();
      const record: KeyRecord = {
        id: randomUUID(),
        prefix: key.slice(0, 8),
        entity,
        name,
        createdAt: Date.now(),
        revokedAt: null,
      };
      insert.run(record.id, digest(key), record.prefix, entity, name, record.createdAt);
      return { key, record };
    },
    list: () => all.all().map(toRecord),
    revoke: (id) => revoke.run(Date.now(), id).changes > 0,
    find(key) {
      // The index compares hashes, of which an attacker controls no prefix.
      const row = byHash.get(digest(key));
      return row ? toRecord(row) : null;
    },
  };
}
