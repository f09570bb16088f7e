import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { HomeLockedError } from "../src/errors.js";
import { openStore } from "../src/store/store.js";

type Line = { opened?: number; model?: string; job?: string; step?: number; finished?: string };

/** Runs the writer and kills it (SIGKILL) once it has printed `lines` lines; `meanwhile` runs just before. */
async function writeUntilKilled(home: string, lines: number, meanwhile?: (pid: number) => void): Promise<Line[]> {
  const script = fileURLToPath(new URL("fixtures/storeWriter.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", script, home], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  let text = "";
  for await (const chunk of child.stdout) {
    text += String(chunk);
    if (text.split("\n").length <= lines) continue;
    meanwhile?.(child.pid!);
    meanwhile = undefined;
    child.kill("SIGKILL");
  }
  await ended;
  return text
    .slice(0, text.lastIndexOf("\n"))
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

it("loses nothing that was acknowledged and shows nothing half done when its process is killed", async () => {
  const home = mkdtempSync(join(tmpdir(), "store-crash-"));
  try {
    const said: Line[] = [];
    for (const lines of [7, 40, 123]) {
      said.push(
        ...(await writeUntilKilled(home, lines, (pid) => {
          // While it lives, its home is its own.
          expect(() => openStore(home)).toThrow(HomeLockedError);
          try {
            openStore(home);
          } catch (error) {
            expect((error as HomeLockedError).pid).toBe(pid);
          }
        })),
      );
    }
    const store = openStore(home);
    for (const line of said) {
      if (line.model) expect(store.models.get(line.model)).not.toBeNull();
      if (line.job) {
        const steps = store.events.list(line.job, { limit: 100 }).items.filter((e) => e.type === "gradient_step");
        expect(steps.length).toBeGreaterThan(line.step!);
      }
      if (line.finished) {
        expect(store.jobs.get(line.finished)?.status).toBe("succeeded");
        expect(store.events.terminal(line.finished)?.type).toBe("training_ended");
      }
    }
    expect(said.filter((line) => line.finished).length).toBeGreaterThan(10);
    for (const model of store.models.list()) {
      for (const job of store.jobs.listByModel(model.id)) {
        const events = store.events.list(job.id, { limit: 100 }).items.map((event) => event.type);
        const steps = events.filter((type) => type === "gradient_step").length;
        if (job.status === "running") expect(job.state).toEqual(steps === 0 ? null : { step: steps - 1 });
        if (job.status === "succeeded") {
          expect(events).toEqual(["training_started", ...Array(3).fill("gradient_step"), "training_ended"]);
        }
        const folder = store.files.checkpointFolder(model.id, 1);
        expect(existsSync(folder)).toBe(job.status === "succeeded");
        if (job.status === "succeeded") {
          expect(readFileSync(join(folder, "adapter_model.safetensors")).equals(Buffer.alloc(20_000, 1))).toBe(true);
        }
      }
    }
    store.close();
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});
