import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import type { TrainingConversation } from "../../src/types/training.js";

const data: TrainingConversation[] = ["cat", "dog", "bird"].map((word) => ({
  messages: [
    { role: "user", content: `Say ${word}.` },
    { role: "assistant", content: `No, ${word}!` },
  ],
}));
const lines = data.map((conversation) => `${JSON.stringify(conversation)}\n`).join("");

let folder: string;
let engine: Engine;
let made = 0;
const newModel = async () =>
  (await engine.models.create({ project: "p", name: `m${made++}`, base_model: "anneal/tiny" })).id;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "supervised-"));
  mkdirSync(join(folder, "roots"));
  writeFileSync(join(folder, "chats.jsonl"), lines);
  engine = await Engine.open({ home: join(folder, "home"), dataRoots: [join(folder, "roots")] });
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

const adapter = (modelId: string) => {
  const file = join(engine.core.store.files.checkpointFolder(modelId, 1), "adapter_model.safetensors");
  return createHash("sha256").update(readFileSync(file)).digest("hex");
};

it("learns the same from an array and from any file that the application names", async () => {
  const file = join(folder, "chats.jsonl");
  const config = { learning_rate: [1e-3, 5e-4] };
  const made: string[] = [];
  for (const source of [
    { data },
    { training_data_url: file },
    { training_data_url: relative(process.cwd(), file) },
    { training_data_url: pathToFileURL(file).href },
  ]) {
    const model_id = await newModel();
    const { id } = await engine.sftTrainingJobs.create({ model_id, ...source, config });
    await engine.trainingJobs.wait(id);
    made.push(adapter(model_id));
  }
  expect(new Set(made).size).toBe(1);
});

it("names the file and the line, or the entry, that cannot be used", async () => {
  const model_id = await newModel();
  const file = join(folder, "broken.jsonl");
  writeFileSync(file, `${lines}{"messages": []}\n`);
  const named = relative(process.cwd(), file);
  const { id } = await engine.sftTrainingJobs.create({ model_id, training_data_url: named });
  await expect(engine.trainingJobs.wait(id)).rejects.toThrow(`${named}, line 4: "messages" must be a list`);

  const create = (params: object) => engine.sftTrainingJobs.create({ model_id, ...params });
  const wrong: [params: object, param: string, message: RegExp][] = [
    [{ data: [...data, { messages: [{ role: "user", content: "x" }] }] }, "data.3", /the last message must be/],
    [{ data: [...data, null] }, "data.3", /"messages" must be a list/],
    [{ data: [] }, "data", /holds no conversation/],
    [{ data, config: { learning_rate: [1e-3] } }, "config.learning_rate", /holds 1 values for 2 batches/],
    [{}, "training_data_url", /is missing, and so is data/],
    [{ data, training_data_url: file }, "training_data_url", /cannot be combined with data/],
    [{ training_data_url: join(folder, "nothing") }, "training_data_url", /supervised-.*nothing is not there/],
  ];
  for (const [params, param, message] of wrong) {
    await expect(create(params), param).rejects.toMatchObject({
      status: 422,
      param,
      message: expect.stringMatching(message),
    });
  }
});

it("bounds what requests name by the data roots, the owner's too", async () => {
  const model_id = await newModel();
  const request = (body: object) =>
    engine.fetch("http://engine/v1/preview/sft-training-jobs", {
      method: "POST",
      headers: { authorization: `Bearer ${engine.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model_id, ...body }),
    });
  expect((await request({ training_data_url: join(folder, "chats.jsonl") })).status).toBe(422);
  const inline = await request({ data });
  expect(inline.status).toBe(200);
  await engine.trainingJobs.wait(((await inline.json()) as { id: string }).id);
});

it("takes the application's own adapter folders from anywhere", async () => {
  const model_id = await newModel();
  const path = engine.core.store.files.checkpointFolder(model_id, 0);
  const imported = await engine.models.import({ project: "p", name: "imported", base_model: "anneal/tiny", path });
  const { id } = await engine.trainingJobs.create({
    model_id: imported.id,
    trajectory_groups: [],
    experimental_config: { kl_penalty_coef: 0.1, kl_ref_adapter_path: relative(process.cwd(), path) },
  });
  expect((await engine.trainingJobs.wait(id)).step).toBe(1);
});
