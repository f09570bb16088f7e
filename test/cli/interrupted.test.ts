import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "interrupted-test-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const tsx = pathToFileURL(fileURLToPath(import.meta.resolve("tsx"))).href;
const source = new URL("../../src/cli/interrupted.ts", import.meta.url).href;

/** A process that cannot close: its threads for files wait for one that nobody writes. */
function stuck(mostClosing: number) {
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  const body = `
    import { readFile } from "node:fs";
    const { interrupted } = await import(${JSON.stringify(source)});
    for (let i = 0; i < 8; i++) readFile(${JSON.stringify(pipe)}, () => undefined);
    const closing = interrupted(${mostClosing});
    process.stdout.write("ready ");
    await closing;
    process.stdout.write("closing ");`;
  const args = ["--import", tsx, "--input-type=module", "-e", body];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  const printed = (wanted: string) =>
    new Promise<void>((resolve) => {
      const look = () => text.includes(wanted) && resolve();
      child.stdout.on("data", (chunk) => {
        text += chunk;
        look();
      });
      look();
    });
  const ended = new Promise<string | null>((resolve) => child.on("close", (_, signal) => resolve(signal)));
  return { child, printed, ended };
}

it("ends in bounded time, whatever holds on to the process", async () => {
  const { child, printed, ended } = stuck(200);
  await printed("ready");
  child.kill("SIGTERM");
  await printed("closing");
  expect(await ended).toBe("SIGTERM");
});

it("ends at once when it is asked again", async () => {
  const { child, printed, ended } = stuck(3_600_000);
  await printed("ready");
  child.kill("SIGINT");
  await printed("closing");
  child.kill("SIGTERM");
  expect(await ended).toBe("SIGTERM");
});
