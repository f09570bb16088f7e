import { createHash, randomUUID } from "node:crypto";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Database } from "better-sqlite3";
import { ValidationError } from "../errors.js";
import { makeFolder, moveFile, moveFolder, type StreamedFile, streamFile } from "./durableFiles.js";
import type { HomeFiles } from "./homeFiles.js";
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
  /** Makes a version of these files alone: all of them, or after a crash none. */
  create(key: ArtifactKey, files: [name: string, content: string | Uint8Array][]): Promise<ArtifactRecord>;
  /** Where files of the next version are put. Made if it is not there. */
  pendingFolder(key: ArtifactKey): string;
  /** Takes in one file of the next version, which is the one that is next when the file is whole. */
  put(key: ArtifactKey, file: string, content: AsyncIterable<Uint8Array>): Promise<StreamedFile>;
  /** @throws ValidationError when no file was put. */
  commit(key: ArtifactKey): ArtifactRecord;
  /** Ends the commit that a crash cut short between its row and its folder, and removes what a crash left half written. */
  recover(): void;
  find(key: ArtifactKey, version: number): ArtifactRecord | null;
  latest(key: ArtifactKey): ArtifactRecord | null;
  folder(artifact: ArtifactRecord): string;
  /** Whether its files are in their place, or where `recover` finds them. */
  isThere(id: string): boolean;
  ids(): Set<string>;
}

/** Names of folders that files are gathered in until they are committed. */
const SHARED_PENDING = /^[0-9a-f]{32}$/;

/** Characters of a text that are encoded, or bytes that are written, at once. */
const SLICE = 1 << 20;

async function* slices(content: string | Uint8Array): AsyncGenerator<Uint8Array> {
  if (typeof content !== "string") {
    for (let at = 0; at < content.length; at += SLICE) yield content.subarray(at, at + SLICE);
    return;
  }
  const encoder = new TextEncoder();
  for (let at = 0; at < content.length; ) {
    let end = Math.min(at + SLICE, content.length);
    // Not between the halves of a character.
    if (end < content.length && isHighSurrogate(content.charCodeAt(end - 1))) end -= 1;
    yield encoder.encode(content.slice(at, end));
    at = end;
  }
}

const isHighSurrogate = (unit: number): boolean => (unit & 0xfc00) === 0xd800;

/** Removes files whose writing was cut off. */
function removeParts(folder: string): void {
  for (const name of readdirSync(folder)) if (name.endsWith(".part")) rmSync(join(folder, name));
}

/** `files` makes empty folders on the file system of `root`. */
export function artifactTable(
  database: Database,
  root: string,
  files: Pick<HomeFiles, "temporary" | "remove">,
): ArtifactTable {
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
  const byId = database.prepare<[string], Row>("SELECT * FROM artifacts WHERE id = ?");
  const everything = database.prepare<[], Row>("SELECT * FROM artifacts");
  const toRecord = ({ created_at, ...row }: Row): ArtifactRecord => ({ ...row, createdAt: created_at });
  // A hash, since names that differ only in case are one name to some file systems.
  const pendingOf = ({ entity, project, name }: ArtifactKey) =>
    join(root, "pending", createHash("sha256").update(`${entity}/${project}/${name}`).digest("hex").slice(0, 32));

  const nextVersion = (key: ArtifactKey): Omit<ArtifactRecord, "id"> => ({
    ...key,
    version: (table.latest(key)?.version ?? -1) + 1,
    createdAt: Date.now(),
  });
  // Of a version made at once, named by its id: nothing but a crash or a full disk leaves it there.
  const ownPending = (id: string) => join(root, "pending", id);
  /** What a crash left of a version that has its row. */
  const notMoved = (record: ArtifactRecord) => [ownPending(record.id), pendingOf(record)].find(existsSync);
  /** Ids of versions that could not be moved, nor lose their rows, since nothing could be written. */
  const failed = new Set<string>();
  const forgetFailed = () => {
    for (const id of failed) {
      forget.run(id);
      rmSync(ownPending(id), { recursive: true, force: true });
      failed.delete(id);
    }
  };
  const commitFolder = (id: string, key: ArtifactKey, folder: string): ArtifactRecord => {
    forgetFailed();
    const record: ArtifactRecord = { id, ...nextVersion(key) };
    insert.run(record.id, record.entity, record.project, record.name, record.version, record.createdAt);
    try {
      moveFolder(folder, table.folder(record));
    } catch (error) {
      failed.add(id);
      forgetFailed();
      throw error;
    }
    return record;
  };

  const table: ArtifactTable = {
    async create(key, contents) {
      const id = randomUUID();
      const folder = ownPending(id);
      try {
        makeFolder(folder);
        for (const [file, content] of contents) await streamFile(join(folder, file), slices(content));
        return commitFolder(id, key, folder);
      } catch (error) {
        if (!failed.has(id)) rmSync(folder, { recursive: true, force: true });
        throw error;
      }
    },
    pendingFolder(key) {
      const folder = pendingOf(key);
      makeFolder(folder);
      return folder;
    },
    async put(key, file, content) {
      const folder = files.temporary();
      try {
        const written = await streamFile(join(folder, file), content);
        moveFile(join(folder, file), join(table.pendingFolder(key), file));
        return written;
      } finally {
        files.remove(folder);
      }
    },
    commit(key) {
      const pending = pendingOf(key);
      if (!existsSync(pending) || readdirSync(pending).every((name) => name.endsWith(".part"))) {
        throw ValidationError.at("name", `no file was put for ${key.entity}/${key.project}/${key.name}`);
      }
      removeParts(pending);
      return commitFolder(randomUUID(), key, pending);
    },
    recover() {
      for (const row of everything.all()) {
        const record = toRecord(row);
        if (existsSync(table.folder(record))) continue;
        const pending = notMoved(record);
        if (pending) moveFolder(pending, table.folder(record));
      }
      const all = join(root, "pending");
      for (const name of existsSync(all) ? readdirSync(all) : []) {
        if (!SHARED_PENDING.test(name)) rmSync(join(all, name), { recursive: true, force: true });
        else removeParts(join(all, name));
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
    isThere(id) {
      if (existsSync(join(root, id))) return true;
      const row = byId.get(id);
      return row !== undefined && notMoved(toRecord(row)) !== undefined;
    },
    ids: () => new Set(everything.all().map((row) => row.id)),
  };
  return table;
}
