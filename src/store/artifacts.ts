import { createHash, randomUUID } from "node:crypto";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Database } from "better-sqlite3";
import { ValidationError } from "../errors.js";
import { makeFolder, moveFile, moveFolder, type StreamedFile, streamFile } from "./durableFiles.js";
import type { ArtifactRecord } from "./records.js";

interface Row {
  id: string;
  entity: string;
  project: string;
  name: string;
  version: number;
  created_at: number;
}

export interface ArtifactKey {
  entity: string;
  project: string;
  name: string;
}

/** Versioned folders of files. Files are gathered under a name and become a version, unchangeable, when committed. */
export interface ArtifactTable {
  /** Where files of the next version are put. Made if it is not there. */
  pendingFolder(key: ArtifactKey): string;
  /** Takes in one file of the next version, which is the one that is next when the file is whole. */
  put(key: ArtifactKey, file: string, content: AsyncIterable<Uint8Array>): Promise<StreamedFile>;
  /** @throws ValidationError when no file was put. */
  commit(key: ArtifactKey): ArtifactRecord;
  /** Ends the commit that a crash cut short between its row and its folder. */
  recover(): void;
  find(key: ArtifactKey, version: number): ArtifactRecord | null;
  latest(key: ArtifactKey): ArtifactRecord | null;
  folder(artifact: ArtifactRecord): string;
  ids(): Set<string>;
}

/** `temporary` makes an empty folder on the file system of `root`. */
export function artifactTable(database: Database, root: string, temporary: () => string): ArtifactTable {
  const insert = database.prepare(
    "INSERT INTO artifacts (id, entity, project, name, version, created_at) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const forget = database.prepare("DELETE FROM artifacts WHERE id = ?");
  const byVersion = database.prepare<[string, string, string, number], Row>(
    "SELECT * FROM artifacts WHERE entity = ? AND project = ? AND name = ? AND version = ?",
  );
  const newest = database.prepare<[string, string, string], Row>(
    "SELECT * FROM artifacts WHERE entity = ? AND project = ? AND name = ? ORDER BY version DESC LIMIT 1",
  );
  const everything = database.prepare<[], Row>("SELECT * FROM artifacts");
  const toRecord = ({ created_at, ...row }: Row): ArtifactRecord => ({ ...row, createdAt: created_at });
  // A hash, since names that differ only in case are one name to some file systems.
  const pendingOf = ({ entity, project, name }: ArtifactKey) =>
    join(root, "pending", createHash("sha256").update(`${entity}/${project}/${name}`).digest("hex").slice(0, 32));

  const table: ArtifactTable = {
    pendingFolder(key) {
      const folder = pendingOf(key);
      makeFolder(folder);
      return folder;
    },
    async put(key, file, content) {
      const folder = temporary();
      try {
        const written = await streamFile(join(folder, file), content);
        moveFile(join(folder, file), join(table.pendingFolder(key), file));
        return written;
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
    commit(key) {
      const pending = pendingOf(key);
      if (!existsSync(pending) || readdirSync(pending).every((name) => name.endsWith(".part"))) {
        throw ValidationError.at("name", `no file was put for ${key.entity}/${key.project}/${key.name}`);
      }
      for (const name of readdirSync(pending)) if (name.endsWith(".part")) rmSync(join(pending, name));
      const record: ArtifactRecord = {
        id: randomUUID(),
        ...key,
        version: (table.latest(key)?.version ?? -1) + 1,
        createdAt: Date.now(),
      };
      insert.run(record.id, record.entity, record.project, record.name, record.version, record.createdAt);
      try {
        moveFolder(pending, table.folder(record));
      } catch (error) {
        forget.run(record.id);
        throw error;
      }
      return record;
    },
    recover() {
      for (const row of everything.all()) {
        const record = toRecord(row);
        const pending = pendingOf(record);
        if (existsSync(pending) && !existsSync(table.folder(record))) moveFolder(pending, table.folder(record));
      }
    },
    find({ entity, project, name }, version) {
      const row = byVersion.get(entity, project, name, version);
      return row ? toRecord(row) : null;
    },
    latest({ entity, project, name }) {
      const row = newest.get(entity, project, name);
      return row ? toRecord(row) : null;
    },
    folder: (artifact) => join(root, artifact.id),
    ids: () => new Set(everything.all().map((row) => row.id)),
  };
  return table;
}
