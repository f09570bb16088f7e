// An engine that dies at any moment of any work, again and again, against one that is left alone.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import { checkHome } from "../../src/store/checkHome.js";
import { openStore, type Store } from "../../src/store/store.js";
import { readSafetensors } from "../../src/weights/index.js";
import { loggedGroups } from "../fixtures/loggedGroups.js";
import { type Acknowledged, JOBS_PER_MODEL, jobRequest, sftLines } from "./busyWork.js";

/** Rounds of work that end by SIGKILL. `KILL_ROUNDS=200 npx vitest run test/jobs/killed.test.ts` looks longer. */
const rounds = Number(process.env.KILL_ROUNDS ?? 4);
const seed = Number(process.env.KILL_SEED ?? 1);

/** Kills `delay` milliseconds after the process is ready, or after its start; null: lets it end by itself. */
function runProcess(
  args: readonly string[],
  delay: { after: "start" | "ready"; ms: number } | null,
): Promise<{ said: Acknowledged[]; code: number | null }> {
  const script = fileURLToPath(new URL("./busyProcess.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", script, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  const killLater = () => setTimeout(() => child.kill("SIGKILL"), delay!.ms);
  if (delay?.after === "start") killLater();
  return new Promise((resolve, reject) => {
    child.stdout.on("data", (chunk: Buffer) => {
      if (text === "" && delay?.after === "ready") killLater();
      text += chunk.toString();
    });
    child.on("error", reject);
    child.on("close", (code) => {
      const lines = text.slice(0, text.lastIndexOf("\n") + 1).split("\n");
      resolve({ said: lines.filter(Boolean).map((line) => JSON.parse(line) as Acknowledged), code });
    });
  });
}

/** Hash of every tensor file of a checkpoint. */
function checkpointBits(store: Store, modelId: string, step: number): string[] {
  const folder = store.files.checkpointFolder(modelId, step);
  const names = readdirSync(folder).filter((name) => name.endsWith(".safetensors"));
  return names.sort().map((name) => {
    const hash = createHash("sha256").update(readFileSync(join(folder, name)));
    return `${name} ${hash.digest("hex")}`;
  });
}

/** The bits of steps 0 to JOBS_PER_MODEL of a model that nobody disturbed. */
async function undisturbed(): Promise<string[][]> {
  const engine = await Engine.open();
  try {
    const model = await engine.models.create({ project: "p", name: "left-alone", base_model: "anneal/tiny" });
    for (let number = 0; number < JOBS_PER_MODEL; number++) {
      const request = jobRequest(number);
      let id: string;
      if (request.kind === "rl") {
        ({ id } = await engine.trainingJobs.create({ model_id: model.id, ...request.params }));
      } else {
        const files = { "train.jsonl": sftLines(number) };
        const { url } = await engine.artifacts.create({ project: "p", name: "data", files });
        ({ id } = await engine.sftTrainingJobs.create({ model_id: model.id, training_data_url: url }));
      }
      await engine.trainingJobs.wait(id);
    }
    return Array.from({ length: JOBS_PER_MODEL + 1 }, (_, step) => checkpointBits(engine.core.store, model.id, step));
  } finally {
    await engine.close();
  }
}

function filesBelow(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: "utf8" });
}

it("ends every job once, with the weights of an undisturbed run, however often its process is killed", {
  timeout: 60_000 + rounds * 30_000,
}, async () => {
  const expected = await undisturbed();
  const home = mkdtempSync(join(tmpdir(), "killed-"));
  let state = seed;
  const draw = (below: number) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >>> 8) % below;
  };
  try {
    const said: Acknowledged[] = [];
    let killed = 0;
    for (let round = 0; round < rounds; round++) {
      // Some die while they open the home and take up what was left.
      const delay =
        draw(8) === 0 ? { after: "start" as const, ms: draw(2000) } : { after: "ready" as const, ms: draw(1500) };
      const result = await runProcess([home, String(seed * 1000 + round)], delay);
      if (result.code === null) killed += 1;
      said.push(...result.said);
    }
    expect(killed).toBe(rounds);
    expect((await runProcess([home], null)).code).toBe(0);

    const store = openStore(home);
    try {
      const gone = new Set(said.flatMap((line) => (line.type === "deleting" ? [line.model] : [])));
      let jobs = 0;
      for (const line of said) {
        if (line.type === "model" && !gone.has(line.model)) expect(store.models.get(line.model)).not.toBeNull();
        if (line.type === "deleted") {
          expect(store.models.get(line.model)).toBeNull();
          expect(existsSync(store.files.modelFolder(line.model))).toBe(false);
        }
        if (line.type === "step deleted") expect(store.checkpoints.get(line.model, line.step)).toBeNull();
        if (line.type === "log" && !gone.has(line.model)) {
          const marks = loggedGroups(store, line.model, { split: "val" }).map(
            (group) => group.trajectories[0]!.metadata?.mark,
          );
          expect(marks).toContain(line.mark);
        }
        if (line.type === "backup") {
          expect((await checkHome(line.folder)).problems, line.folder).toEqual([]);
          openStore(line.folder).close();
        }
        if (line.type === "export") {
          const names = readdirSync(line.folder);
          const weights = names.includes("config.json") ? "model.safetensors" : "adapter_model.safetensors";
          const { tensors } = await readSafetensors(join(line.folder, weights));
          expect(tensors.size, line.folder).toBeGreaterThan(10);
        }
        if (line.type === "artifact") {
          const [, name, version] = /\/(data\d+):v(\d+)$/.exec(line.url)!;
          const found = store.artifacts.find({ entity: "local", project: "p", name: name! }, Number(version));
          expect(readFileSync(join(store.artifacts.folder(found!), "train.jsonl"), "utf8")).toBe(
            sftLines(Number(name!.slice(4))),
          );
        }
        if (line.type !== "job") continue;
        jobs += 1;
        const types = store.events.list(line.job, { limit: 1000 }).items.map((event) => event.type);
        const terminal = types.filter((type) => type === "training_ended" || type === "training_failed");
        expect(terminal, line.job).toHaveLength(1);
        if (gone.has(line.model)) continue;
        const sequences = store.events.list(line.job, { limit: 1 }).items[0]!.data.num_sequences as number;
        expect(types, line.job).toEqual([
          "training_started",
          ...Array(sequences).fill("gradient_step"),
          "training_ended",
        ]);
      }
      let checkpoints = 0;
      for (const model of store.models.list()) {
        const all = store.jobs.listByModel(model.id);
        expect(all.map((job) => [job.status, job.step])).toEqual(all.map((_, i) => ["succeeded", i + 1]));
        for (const step of store.checkpoints.steps(model.id)) {
          expect(checkpointBits(store, model.id, step), `step ${step}`).toEqual(expected[step]);
          checkpoints += 1;
        }
        // Groups of one call are there all together, or not at all.
        const together = new Map<unknown, number>();
        for (const { trajectories } of loggedGroups(store, model.id, { split: "val" })) {
          const mark = trajectories[0]!.metadata!.mark;
          together.set(mark, (together.get(mark) ?? 0) + 1);
        }
        for (const count of together.values()) expect([1, 40]).toContain(count);
        const folders = readdirSync(store.files.modelFolder(model.id)).map(Number);
        expect(folders.sort((a, b) => a - b)).toEqual(store.checkpoints.steps(model.id));
      }
      expect(readdirSync(join(home, "checkpoints")).sort()).toEqual(
        store.models
          .list()
          .map(({ id }) => id)
          .sort(),
      );
      expect(filesBelow(join(home, "jobs"))).toEqual([]);
      expect(filesBelow(join(home, "temporary"))).toEqual([]);
      expect(filesBelow(home).filter((name) => name.endsWith(".part"))).toEqual([]);
      expect((await checkHome(home)).problems).toEqual([]);
      if (process.env.KILL_ROUNDS) console.log(`${killed} kills, ${jobs} jobs, ${checkpoints} checkpoints compared`);
    } finally {
      store.close();
    }
  } finally {
    for (const folder of [home, `${home}-out`]) rmSync(folder, { recursive: true, force: true });
  }
});
