import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import { backupHome } from "../../src/store/backupHome.js";
import { sftLines } from "./busyWork.js";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "moved-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("goes on with a queued job's artifact in the copy of a home that is not there any more", async () => {
  const [home, copy] = [join(folder, "home"), join(folder, "copy")];
  let engine = await Engine.open({ home });
  const model = await engine.models.create({ project: "p", name: "m", base_model: "anneal/tiny" });
  const files = { "train.jsonl": sftLines(1) };
  const { url } = await engine.artifacts.create({ project: "p", name: "data", files });
  // It holds the model's place, so that the job has not begun.
  await engine.training.open(model);
  const job = await engine.sftTrainingJobs.create({ model_id: model.id, training_data_url: url });
  expect((await backupHome(home, copy)).jobs).toBe(1);
  await engine.close();
  rmSync(home, { recursive: true });
  engine = await Engine.open({ home: copy });
  try {
    expect(await engine.trainingJobs.wait(job.id)).toMatchObject({ status: "succeeded" });
  } finally {
    await engine.close();
  }
});
