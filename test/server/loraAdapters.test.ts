// Adapters by name, as vLLM's clients load, replace and unload them.

import { cpSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import type { ChatCompletion } from "../../src/types/chat.js";
import { Harness } from "./harness.js";

let server: Harness;
let adapter: string;
beforeAll(async () => {
  server = await Harness.open();
  const model = await server.engine.models.create({
    project: "p",
    name: "source",
    base_model: "anneal/tiny",
    adapter: { rank: 2 },
  });
  adapter = join(server.home, "adapter");
  await server.engine.models.export(model.id, { path: adapter });
});
afterAll(() => server?.close());

const load = (body: object) => server.request("POST", "/v1/load_lora_adapter", body);
const unload = (body: object) => server.request("POST", "/v1/unload_lora_adapter", body);
const ask = async (model: string) => {
  const answer = await server.request("POST", "/v1/chat/completions", {
    model,
    messages: [{ role: "user", content: "What is 3 + 4?" }],
    max_tokens: 2,
  });
  return { status: answer.status, body: (await answer.json()) as ChatCompletion };
};

describe("an adapter", () => {
  it("is loaded, asked for by its name, replaced in place, and unloaded", async () => {
    const body = { lora_name: "sql-lora", lora_path: adapter };
    const loaded = await load(body);
    expect([loaded.status, await loaded.text()]).toEqual([200, "Success: LoRA adapter 'sql-lora' added successfully."]);
    expect(loaded.headers.get("content-type")).toMatch(/^text\/plain/);
    expect((await ask("sql-lora")).body.model).toMatch(/sql-lora:step0$/);
    const again = await load(body);
    expect(again.status).toBe(400);
    expect(await again.json()).toMatchObject({ error: { code: "model_exists", param: "lora_name" } });
    expect((await load({ ...body, load_inplace: true })).status).toBe(200);
    expect((await ask("sql-lora")).body.model).toMatch(/sql-lora:step1$/);
    const gone = await unload({ lora_name: "sql-lora" });
    expect([gone.status, await gone.text()]).toEqual([200, "Success: LoRA adapter 'sql-lora' removed successfully."]);
    expect((await ask("sql-lora")).status).toBe(404);
    expect((await unload({ lora_name: "sql-lora" })).status).toBe(404);
    // The name is free again; with nothing there, in place is as anew.
    expect((await load({ ...body, load_inplace: true })).status).toBe(200);
    expect((await ask("sql-lora")).status).toBe(200);
    expect((await unload({ lora_name: "sql-lora" })).status).toBe(200);
  });

  it("is refused by name: no path, no folder, no adapter, no such base, no name", async () => {
    const broken = join(server.home, "broken");
    mkdirSync(broken);
    writeFileSync(join(broken, "adapter_config.json"), "{");
    for (const [body, status] of [
      [{ lora_name: "a" }, 422],
      [{ lora_path: adapter }, 422],
      [{ lora_name: "a/b", lora_path: adapter }, 422],
      [{ lora_name: "a", lora_path: join(server.home, "none") }, 404],
      [{ lora_name: "a", lora_path: "/etc" }, 404],
      [{ lora_name: "a", lora_path: adapter, base_model_name: "none" }, 422],
    ] as const) {
      expect((await load(body)).status, JSON.stringify(body)).toBe(status);
    }
    expect((await load({ lora_name: "a", lora_path: broken })).status).toBeGreaterThanOrEqual(400);
    expect((await ask("a")).status).toBe(404);
  });

  it("that is broken leaves the one in its place", async () => {
    await load({ lora_name: "kept", lora_path: adapter });
    const broken = join(server.home, "broken-weights");
    cpSync(adapter, broken, { recursive: true });
    writeFileSync(join(broken, "adapter_model.safetensors"), "nothing");
    expect((await load({ lora_name: "kept", lora_path: broken, load_inplace: true })).status).toBeGreaterThanOrEqual(
      400,
    );
    expect((await ask("kept")).body.model).toMatch(/kept:step0$/);
    await unload({ lora_name: "kept" });
  });

  it("that is unloaded while it is replaced is gone, and its files are", async () => {
    for (let turn = 0; turn < 5; turn++) {
      await load({ lora_name: "leaving", lora_path: adapter });
      const others = new Set(readdirSync(join(server.home, "checkpoints")));
      const replaced = load({ lora_name: "leaving", lora_path: adapter, load_inplace: true });
      // The turns differ in how far the adapter has been read.
      for (let passed = 0; passed < 4 * turn; passed++) await setImmediate();
      expect((await unload({ lora_name: "leaving" })).status).toBe(200);
      const { status } = await replaced;
      expect([200, 404]).toContain(status);
      await unload({ lora_name: "leaving" });
      expect(readdirSync(join(server.home, "checkpoints")).length).toBe(others.size - 1);
    }
  });

  it("of one entity is not another's, whose paths reach nothing that was not named", async () => {
    await load({ lora_name: "mine", lora_path: adapter });
    const { key } = await server.engine.keys.create({ entity: "other" });
    const headers = { authorization: `Bearer ${key}` };
    const post = (path: string, body: object) => server.request("POST", path, body, headers);
    const refused = await post("/v1/load_lora_adapter", { lora_name: "theirs", lora_path: adapter });
    const hidden = await post("/v1/load_lora_adapter", { lora_name: "theirs", lora_path: join(server.home, "none") });
    expect([refused.status, hidden.status]).toEqual([404, 404]);
    expect((await post("/v1/unload_lora_adapter", { lora_name: "mine" })).status).toBe(404);
    const link = join(server.home, "link");
    symlinkSync(adapter, link);
    expect((await post("/v1/load_lora_adapter", { lora_name: "theirs", lora_path: link })).status).toBe(404);
    rmSync(link);
    await unload({ lora_name: "mine" });
  });

  it("is loaded in process, and by a client of an address", async () => {
    await server.engine.loraAdapters.load({ lora_name: "own", lora_path: adapter });
    expect((await ask("own")).status).toBe(200);
    await server.engine.loraAdapters.unload({ lora_name: "own" });
    await expect(server.engine.loraAdapters.unload({ lora_name: "own" })).rejects.toMatchObject({ status: 404 });
    expect(Engine).toBeDefined();
  });
});
