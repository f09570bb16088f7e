// An engine that is made to be killed: trains, chats, logs, uploads, exports, backs up and deletes as fast as it can, and says so once each thing is
// acknowledged. Usage: busyProcess.ts HOME SEED, or busyProcess.ts HOME to end the jobs that are left.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Engine } from "../../src/anneal.js";
import { backupHome } from "../../src/store/backupHome.js";
import type { Model } from "../../src/types/models.js";
import { type Acknowledged, JOBS_PER_MODEL, jobRequest, sftLines } from "./busyWork.js";

const [home, seed] = process.argv.slice(2) as [string, string?];
const say = (line: Acknowledged) => writeFileSync(1, `${JSON.stringify(line)}\n`);
const engine = await Engine.open({ home });
const { store } = engine.core;
say({ type: "ready" });

let state = Number(seed ?? 0) + 1;
function draw(below: number): number {
  state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
  return (state >>> 8) % below;
}

async function makeModel(): Promise<Model> {
  const name = `m${process.pid}-${draw(2 ** 20)}`;
  const model = await engine.models.create({ project: "p", name, base_model: "anneal/tiny", return_existing: true });
  say({ type: "model", model: model.id });
  return model;
}

/** What a job is asked for follows from its number alone, so every model goes through the same checkpoints. */
async function train(model: Model, number: number): Promise<void> {
  const request = jobRequest(number);
  const { id } =
    request.kind === "rl"
      ? await engine.trainingJobs.create({ model_id: model.id, ...request.params })
      : await engine.sftTrainingJobs.create({ model_id: model.id, training_data_url: await upload(number) });
  say({ type: "job", job: id, model: model.id });
}

async function upload(number: number): Promise<string> {
  const name = `data${number}`;
  const { url } = await engine.artifacts.create({ project: "p", name, files: { "train.jsonl": sftLines(number) } });
  say({ type: "artifact", url });
  return url;
}

async function log(model: Model): Promise<void> {
  const mark = draw(2 ** 23);
  const trajectory = { messages_and_choices: [], reward: 0.5, metadata: { mark } };
  await engine.models.log(model.id, { split: "val", trajectory_groups: [{ trajectories: [trajectory] }] });
  say({ type: "log", model: model.id, mark });
}

async function deleteOldest(model: Model): Promise<void> {
  const steps = store.checkpoints.steps(model.id).slice(0, -1);
  if (steps.length < 2) return;
  await engine.checkpoints.delete(model.id, { steps: [steps[0]!] });
  say({ type: "step deleted", model: model.id, step: steps[0]! });
}

async function deleteModel(model: Model): Promise<void> {
  say({ type: "deleting", model: model.id });
  await engine.models.delete(model.id);
  say({ type: "deleted", model: model.id });
}

/** So many values that they are written in several transactions. */
async function logMuch(model: Model): Promise<void> {
  const mark = draw(2 ** 23);
  const trajectory = (reward: number) => ({ messages_and_choices: [], reward, metadata: { mark }, logs: LINES });
  const trajectory_groups = Array.from({ length: 40 }, () => ({ trajectories: [trajectory(0), trajectory(1)] }));
  await engine.models.log(model.id, { split: "val", trajectory_groups });
  say({ type: "log", model: model.id, mark });
}

const LINES = Array.from({ length: 200 }, (_, i) => `line ${i}`);

async function chat(model: Model): Promise<void> {
  const messages = [{ role: "user" as const, content: "Hello." }];
  await engine.chat.completions.create({ model: `local/p/${model.name}`, messages, n: 4, max_tokens: 8 });
}

async function exportStep(model: Model): Promise<void> {
  const folder = join(`${home}-out`, `export-${process.pid}-${draw(2 ** 20)}`);
  const format = draw(4) === 0 ? "merged" : "peft";
  await engine.models.export(model.id, { path: folder, format });
  say({ type: "export", folder });
}

async function backup(): Promise<void> {
  const folder = join(`${home}-out`, `backup-${process.pid}-${draw(2 ** 20)}`);
  await backupHome(home, folder);
  say({ type: "backup", folder });
}

async function work(): Promise<never> {
  for (;;) {
    const models = store.models.list() as unknown as Model[];
    const open = models.filter(({ id }) => store.jobs.listByModel(id).length < JOBS_PER_MODEL);
    const model = open[draw(Math.max(1, open.length))] ?? (await makeModel());
    const action = draw(16);
    if (action === 0 && models.length < 20) await makeModel();
    else if (action === 1 && models.length > 12) await deleteModel(models[draw(models.length)]!);
    else if (action < 3) await deleteOldest(models[draw(models.length)] ?? model);
    else if (action < 6) await log(model);
    else if (action === 12) await chat(model);
    else if (action === 13) await logMuch(model);
    else if (action === 14) await exportStep(model);
    else if (action === 15 && draw(4) === 0) await backup();
    else if (store.jobs.unfinished().length < 6) await train(model, store.jobs.listByModel(model.id).length);
    await sleep(draw(20));
  }
}

if (seed !== undefined) await work();
while (store.jobs.unfinished().length > 0) await sleep(5);
await engine.close();
