import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { META_FILE, verifyChecksums, writeSummed } from "./checksums.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "anneal-sums-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const pieces = () => [Buffer.from("one "), Buffer.from("two "), Buffer.alloc(3_000_000, 7)];

async function writeFolder(): Promise<string> {
  const file = join(folder, "weights");
  const sum = await writeSummed(file, pieces());
  writeFileSync(join(folder, META_FILE), JSON.stringify({ sha256: { weights: sum } }));
  return file;
}

it("sums a file while it writes it, for its owner alone", async () => {
  const file = join(folder, "weights");
  const sum = await writeSummed(file, pieces());
  expect(readFileSync(file).equals(Buffer.concat(pieces()))).toBe(true);
  expect(sum).toBe(createHash("sha256").update(readFileSync(file)).digest("hex"));
  if (process.platform !== "win32") expect(statSync(file).mode & 0o777).toBe(0o600);
  await expect(writeSummed(file, pieces())).rejects.toMatchObject({ code: "EEXIST" });
});

it("tells a file that has changed since it was written, whether or not known ones are read again", async () => {
  const file = await writeFolder();
  for (const known of [true, false]) await verifyChecksums(folder, { known });
  const content = readFileSync(file);
  content[5]! ^= 1;
  writeFileSync(file, content);
  // Its clock may not have moved since it was written.
  utimesSync(file, new Date(), new Date(Date.now() + 10_000));
  for (const known of [true, false, true]) {
    await expect(verifyChecksums(folder, { known })).rejects.toMatchObject({ code: "file_damaged", file });
  }
  content[5]! ^= 1;
  writeFileSync(file, content);
  await verifyChecksums(folder, { known: true });
});

it("reads a known file when it is asked to, and only files that are named", async () => {
  const file = await writeFolder();
  const { atime, mtime } = statSync(file);
  rmSync(file);
  await expect(verifyChecksums(folder, { known: true })).rejects.toMatchObject({ file });
  await verifyChecksums(folder, { named: ["others"] });
  // As large and as old as what was there, but another file.
  writeFileSync(file, Buffer.alloc(Buffer.concat(pieces()).length, 1));
  utimesSync(file, atime, mtime);
  await expect(verifyChecksums(folder, { known: true })).rejects.toMatchObject({ code: "file_damaged" });
});
