import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openRegularFile, readAt, readRegularFile } from "./regularFile.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-regular-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.skipIf(process.platform === "win32")("what is no regular file is refused at once:", () => {
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);

  it.each([
    [pipe, "is a pipe, not a regular file"],
    ["/dev/zero", "is a device, not a regular file"],
    ["/dev/tty", ""],
    [folder, "is a folder, not a regular file"],
    [join(folder, "none"), "is missing"],
    [join(pipe, "below"), "ENOTDIR: not a directory"],
  ])("%s", async (file, reason) => {
    const refused = { name: "ModelFileError", file, status: 422, reason: expect.stringContaining(reason) };
    await expect(openRegularFile(file)).rejects.toMatchObject(refused);
    await expect(readRegularFile(file, 100)).rejects.toMatchObject(refused);
  });
});

describe("a whole file", () => {
  it("is read up to its limit", async () => {
    const file = join(folder, "text");
    for (const length of [0, 1, 99, 100]) {
      writeFileSync(file, "x".repeat(length));
      expect((await readRegularFile(file, 100)).toString()).toBe("x".repeat(length));
    }
    writeFileSync(file, "x".repeat(101));
    await expect(readRegularFile(file, 100)).rejects.toThrow("is larger than 100 bytes");
    truncateSync(file, 2 ** 40);
    await expect(readRegularFile(file, 100)).rejects.toThrow("is larger than 100 bytes");
  });

  it.skipIf(process.platform !== "linux")("is read to its end if it does not know its size", async () => {
    expect((await readRegularFile("/proc/self/status", 2 ** 20)).toString()).toMatch(/^Name:.*\n$/s);
    await expect(readRegularFile("/proc/self/status", 100)).rejects.toThrow("is larger");
  });
});

it("more than one call can read is read in pieces", async () => {
  const asked: number[] = [];
  const read = async (_: Uint8Array, __: number, bytesRead: number) => {
    asked.push(bytesRead);
    return { bytesRead };
  };
  expect(await readAt({ read } as unknown as FileHandle, new Uint8Array(2 ** 31 + 1), 0)).toBe(true);
  expect(asked).toEqual([2 ** 30, 2 ** 30, 1]);
});
