// What the bearer of another entity's key can learn of this machine by naming files of it: nothing.

import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type Answer, Harness } from "./harness.js";

const SECRET = "hunter2";
let server: Harness;
let shared: string;
let elsewhere: string;
let others: { authorization: string };
let model_id: string;
let checkpoint: string;

beforeAll(async () => {
  shared = realpathSync(mkdtempSync(join(tmpdir(), "anneal-shared-")));
  elsewhere = realpathSync(mkdtempSync(join(tmpdir(), "anneal-elsewhere-")));
  writeFileSync(join(elsewhere, "secret.txt"), `${SECRET} is the word\n`);
  server = await Harness.open({ dataRoots: [shared] });
  const mine = await server.makeModel("mine");
  checkpoint = server.engine.core.store.files.checkpointFolder(mine, 0);
  const { key } = await server.engine.keys.create({ entity: "team" });
  others = { authorization: `Bearer ${key}` };
  const body = { project: "test", name: "theirs", base_model: "anneal/tiny" };
  model_id = (await server.call("POST", "/v1/preview/models", body, others)).body.id;
});
afterAll(async () => {
  await server?.close();
  for (const folder of [shared, elsewhere]) rmSync(folder, { recursive: true, force: true });
});

let imports = 0;
const importOf = (path: string, as = others) =>
  server.call(
    "POST",
    "/v1/preview/models/import",
    { project: "test", name: `imported-${imports++}`, base_model: "anneal/tiny", path },
    as,
  );
const train = (training_data_url: string) =>
  server.call("POST", "/v1/preview/sft-training-jobs", { model_id, training_data_url }, others);

/** A folder under the data root. */
function folder(name: string, files: Record<string, string> = {}): string {
  const path = join(shared, name);
  mkdirSync(path);
  for (const [file, content] of Object.entries(files)) writeFileSync(join(path, file), content);
  return path;
}

function expectNothingSeen(text: string): void {
  for (const seen of [SECRET, shared, elsewhere, server.home]) expect(text).not.toContain(seen);
}

async function errorOf(started: Answer): Promise<string> {
  if (started.status !== 200) return JSON.stringify(started.body);
  const job = await server.engine.trainingJobs.wait(started.body.id).catch((error: Error) => error);
  expect(job).toBeInstanceOf(Error);
  const path = `/v1/preview/training-jobs/${started.body.id}`;
  const seen = [
    await server.call("GET", path, undefined, others),
    await server.call("GET", `${path}/events`, undefined, others),
  ];
  return JSON.stringify(seen.map(({ body }) => body));
}

it("files in a folder may not be links, wherever they lead", async () => {
  const linked = folder("linked");
  for (const file of ["adapter_config.json", "adapter_model.safetensors", "meta.json"]) {
    symlinkSync(join(checkpoint, file), join(linked, file));
  }
  const refused = await importOf(linked);
  expect([refused.status, refused.body.detail[0]!.loc.at(-1)]).toEqual([422, "path"]);
  expect(refused.body.detail[0]!.msg).toContain("outside");
  // Also one link, to a neighbour.
  const partly = folder("partly");
  cpSync(checkpoint, partly, { recursive: true });
  expect((await importOf(partly)).status).toBe(200);
  rmSync(join(partly, "meta.json"));
  symlinkSync(join(shared, "meta.json"), join(partly, "meta.json"));
  cpSync(join(checkpoint, "meta.json"), join(shared, "meta.json"));
  expect((await importOf(partly)).status).toBe(422);
  // The owner may have links that stay under the roots.
  expect((await importOf(partly, { authorization: `Bearer ${server.engine.apiKey}` })).status).toBe(200);

  const data = folder("data");
  symlinkSync(join(elsewhere, "secret.txt"), join(data, "train.jsonl"));
  const hidden = await train(data);
  expect([hidden.status, hidden.body.detail[0]!.msg]).toEqual([422, expect.stringContaining("outside")]);
});

it("a file that is no data, or no adapter, is refused without its content or its place", async () => {
  const text = folder("text", { "train.jsonl": `${SECRET} is the word\n` });
  for (const path of [text, join(text, "train.jsonl")]) {
    const error = await errorOf(await train(path));
    expect(error).toContain("train.jsonl, line 1: no valid JSON");
    expectNothingSeen(error);
  }
  const broken = [
    { "adapter_config.json": SECRET },
    { "adapter_config.json": JSON.stringify({ peft_type: SECRET }) },
    { "adapter_config.json": JSON.stringify({ peft_type: "LORA", r: 4, lora_alpha: 8, target_modules: [SECRET] }) },
    { "adapter_config.json": "{}", "meta.json": `${SECRET} {` },
    { "adapter_config.json": "{}", "meta.json": JSON.stringify({ base_hash: "x", base_model: SECRET }) },
    {},
  ];
  for (const [index, files] of broken.entries()) {
    const path = folder(`broken-${index}`, files as Record<string, string>);
    const refused = await importOf(path);
    expect(refused.status).toBe(422);
    expect(JSON.stringify(refused.body)).toMatch(/(adapter_config|meta).json: cannot be used/);
    expectNothingSeen(JSON.stringify(refused.body) + JSON.stringify([...refused.headers]));
    const config = { kl_penalty_coef: 0.1, kl_ref_adapter_path: path };
    const body = { model_id, trajectory_groups: [], experimental_config: config };
    expectNothingSeen(await errorOf(await server.call("POST", "/v1/preview/training-jobs", body, others)));
  }
});

it("a checkpoint that is damaged tells nothing of where it lies", async () => {
  const { store, adapters } = server.engine.core;
  const file = join(store.files.checkpointFolder(model_id, 0), "adapter_model.safetensors");
  writeFileSync(file, SECRET);
  adapters.forget(model_id);
  const chat = { messages: [{ role: "user", content: "hi" }], model: "wandb-artifact:///team/test/theirs" };
  for (const stream of [false, true]) {
    const warned = vi.spyOn(server.engine.logger, "warn");
    const headers = { ...others, "x-request-id": `damaged-${stream}` };
    const response = await server.request("POST", "/v1/chat/completions", { ...chat, stream }, headers);
    const path = "/v1/chat/completions";
    // Its client can be told why: the log has the name of its request.
    const request = { method: "POST", path, request: `damaged-${stream}`, entity: "team" };
    expect(warned).toHaveBeenCalledWith("request refused", { ...request, error: expect.objectContaining({ file }) });
    warned.mockRestore();
    const text = await response.text();
    expect(text).toContain("adapter_model.safetensors");
    expectNothingSeen(text);
  }
  await server.engine.artifacts.create({
    entity: "team",
    project: "test",
    name: "data",
    files: {
      "train.jsonl": JSON.stringify({
        messages: [
          { role: "user", content: "a" },
          { role: "assistant", content: "b" },
        ],
      }),
    },
  });
  const error = await errorOf(await train("wandb-artifact:///team/test/data:v0"));
  expect(error).toContain("adapter_model.safetensors");
  expectNothingSeen(error);
});

it("without data roots there is nothing on this machine that they may name", async () => {
  const plain = await Harness.open();
  try {
    const { key } = await plain.engine.keys.create({ entity: "team" });
    const as = { authorization: `Bearer ${key}` };
    writeFileSync(join(plain.home, "train.jsonl"), SECRET);
    const body = { project: "test", name: "theirs", base_model: "anneal/tiny" };
    const { id } = (await plain.call("POST", "/v1/preview/models", body, as)).body;
    for (const path of [join(elsewhere, "secret.txt"), join(plain.home, "train.jsonl"), "/etc/passwd", "/no/such"]) {
      const job = { model_id: id, training_data_url: path };
      const refused = await plain.call("POST", "/v1/preview/sft-training-jobs", job, as);
      expect([refused.status, refused.body.detail[0]!.msg]).toEqual([422, expect.stringContaining("outside")]);
      const imported = await plain.call("POST", "/v1/preview/models/import", { ...body, name: "x", path }, as);
      expect([imported.status, imported.body.detail[0]!.msg]).toEqual([422, expect.stringContaining("outside")]);
    }
  } finally {
    await plain.close();
  }
});

it("does not tell what others have asked by what is cached of it", async () => {
  const { key } = await server.engine.keys.create({ entity: "another" });
  const content = "A long question of the owner, in which a river, a cat and a lamp are met. ".repeat(3);
  const asks = [
    { path: "/v1/chat/completions", body: { messages: [{ role: "user", content }], max_tokens: 1 } },
    { path: "/v1/completions", body: { prompt: `${content} Plainly.`, max_tokens: 1 } },
  ];
  for (const { path, body } of asks) {
    const cached = async (as?: { authorization: string }, salt?: string) => {
      const { status, body: answer } = await server.call("POST", path, { ...body, cache_salt: salt }, as);
      expect(status).toBe(200);
      return answer.usage.prompt_tokens_details.cached_tokens > 0;
    };
    const other = { authorization: `Bearer ${key}` };
    expect([await cached(), await cached()]).toEqual([false, true]);
    expect([await cached(others), await cached(others)]).toEqual([false, true]);
    expect([await cached(other, "team\n"), await cached(other)]).toEqual([false, false]);
  }
});

it("quotes nothing of the types of parts in data", async () => {
  const messages = [
    { role: "user", content: [{ type: SECRET, text: "x" }] },
    { role: "assistant", content: "y" },
  ];
  const told = await errorOf(
    await train(join(folder("parts", { "train.jsonl": JSON.stringify({ messages }) }), "train.jsonl")),
  );
  expect(told).toContain("messages.0.content.0.type");
  expectNothingSeen(told);
});
