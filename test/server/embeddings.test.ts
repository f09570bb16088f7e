// Embeddings: a model in the layout of sentence-transformers, against what transformers computes on it.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import type { EmbeddingList } from "../../src/types/embeddings.js";
import { type Refusal, Served } from "../conformance/served.js";

const reference = fileURLToPath(new URL("../reference/embedding", import.meta.url));
const expected = JSON.parse(readFileSync(join(reference, "expected.json"), "utf8")) as {
  text: string;
  ids: number[];
  last: number[];
  mean: number[];
  cls: number[];
}[];
const texts = expected.map(({ text }) => text);
const tiny = fileURLToPath(new URL("../../models/tiny", import.meta.url));

let folder: string;
let served: Served;
let client: OpenAI;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "anneal-embedding-"));
  const models = [{ id: "last", path: join(reference, "model") }];
  // The same weights, read in other ways.
  for (const [id, mode, modules] of [
    ["mean", "mean_tokens", ["Transformer", "Pooling"]],
    ["cls", "cls_token", ["Transformer", "Pooling", "Normalize"]],
  ] as const) {
    const path = join(folder, id);
    cpSync(join(reference, "model"), path, { recursive: true });
    const write = (name: string, value: unknown) => writeFileSync(join(path, name), JSON.stringify(value));
    write("1_Pooling/config.json", { [`pooling_mode_${mode}`]: true, pooling_mode_lasttoken: false });
    write(
      "modules.json",
      modules.map((kind, idx) => ({ idx, path: kind === "Pooling" ? "1_Pooling" : "", type: `st.${kind}` })),
    );
    models.push({ id, path });
  }
  served = await Served.open({ models: [...models, { id: "chat", path: tiny }] });
  client = new OpenAI({ apiKey: served.engine.apiKey, baseURL: `${served.address}/v1`, maxRetries: 0 });
});
afterAll(async () => {
  await served?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function embed(body: Record<string, unknown>): Promise<EmbeddingList> {
  const answer = await served.request("POST", "/v1/embeddings", body);
  const list = (await answer.json()) as EmbeddingList;
  expect(answer.status, JSON.stringify(list)).toBe(200);
  return list;
}

async function refusal(body: Record<string, unknown> | string, field: string): Promise<Refusal["detail"][0]> {
  const answer = await served.request("POST", "/v1/embeddings", body);
  const refused = (await answer.json()) as Refusal;
  expect(answer.status, JSON.stringify(refused).slice(0, 500)).toBe(422);
  expect(refused.detail[0]!.loc.join(".")).toBe(field === "" ? "body" : `body.${field}`);
  return refused.detail[0]!;
}

const norm = (vector: number[]) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
const scaled = (vector: number[]) => vector.map((value) => value / norm(vector));
const vectors = ({ data }: EmbeddingList) => data.map(({ embedding }) => embedding as number[]);

function close(vector: number[], wanted: number[]): void {
  expect(vector.length).toBe(wanted.length);
  for (const [i, value] of wanted.entries()) expect(Math.abs(vector[i]! - value)).toBeLessThan(1e-4);
}

describe("vectors", () => {
  it.each([
    ["last", true],
    ["mean", false],
    ["cls", true],
  ] as const)("are those of transformers, pooled by %s", async (model, isNormalized) => {
    const answer = await embed({ model, input: texts });
    expect(answer).toMatchObject({ object: "list", model });
    expect(answer.data.map(({ index }) => index)).toEqual(texts.map((_, i) => i));
    for (const [i, vector] of vectors(answer).entries()) {
      const wanted = expected[i]![model];
      close(vector, isNormalized ? scaled(wanted) : wanted);
    }
    expect(answer.usage.prompt_tokens).toBe(expected.reduce((sum, { ids }) => sum + ids.length, 0));
  });

  it("do not depend on what is asked beside them, and are the same of token ids", async () => {
    for (const model of ["last", "mean"]) {
      const together = vectors(await embed({ model, input: texts }));
      const chats = Array.from({ length: 4 }, () => served.chat({ model: "chat", max_tokens: 30 }));
      const alone = await Promise.all(texts.map(async (input) => vectors(await embed({ model, input }))[0]!));
      expect(alone).toEqual(together);
      const ids = expected.map((one) => one.ids);
      expect(vectors(await embed({ model, input: ids }))).toEqual(together);
      expect(vectors(await embed({ model, input: ids[0]! }))).toEqual([together[0]]);
      await Promise.all(chats);
    }
  });

  it("come as base64 too, which the openai package asks for and reads", async () => {
    const [numbers] = vectors(await embed({ model: "last", input: texts[0]! }));
    const { data } = await embed({ model: "last", input: texts[0]!, encoding_format: "base64" });
    const bytes = Buffer.from(data[0]!.embedding as string, "base64");
    expect([...new Float32Array(new Uint8Array(bytes).buffer)]).toEqual(numbers);
    const theirs = await client.embeddings.create({ model: "last", input: texts });
    close(theirs.data[0]!.embedding, numbers!);
  });

  it("are cut to their first numbers, of length 1 again", async () => {
    const [cut] = vectors(await embed({ model: "last", input: texts[0]!, dimensions: 16 }));
    close(cut!, scaled(expected[0]!.last.slice(0, 16)));
    const [plain] = vectors(await embed({ model: "mean", input: texts[0]!, dimensions: 16 }));
    close(plain!, expected[0]!.mean.slice(0, 16));
    expect((await refusal({ model: "last", input: "x", dimensions: 65 }, "dimensions")).msg).toContain("64");
  });

  it("are of as much of a text as is kept, the token that ends it included", async () => {
    const long = { model: "last", input: "y".repeat(2000) };
    expect((await refusal(long, "input")).type).toBe("context_length_exceeded");
    const cut = await embed({ ...long, truncate_prompt_tokens: 9 });
    expect(cut.usage.prompt_tokens).toBe(9);
    expect(vectors(cut)).toEqual(vectors(await embed({ model: "last", input: "y".repeat(8) })));
    const end = { model: "last", input: `${"y".repeat(2000)}z`, truncate_prompt_tokens: 3, truncation_side: "left" };
    expect(vectors(await embed(end))).toEqual(vectors(await embed({ model: "last", input: "yz" })));
    expect((await embed({ ...long, truncate_prompt_tokens: -1 })).usage.prompt_tokens).toBe(512);
    expect((await embed({ model: "last", input: "y".repeat(5_000_000), truncate_prompt_tokens: -1 })).data.length).toBe(
      1,
    );
  });

  it("are the same for an engine behind an address and in process", async () => {
    const remote = await Engine.connect(served.address, { apiKey: served.engine.apiKey });
    const asked = { model: "last", input: texts };
    const { data } = await served.engine.embeddings.create(asked);
    expect((await remote.embeddings.create(asked)).data).toEqual(data);
    await expect(served.engine.embeddings.create({ ...asked, no_such: 1 } as never)).rejects.toMatchObject({
      param: "no_such",
    });
  });

  it("of a trained model are its own", async () => {
    const { models } = served.engine;
    const model = await models.create({ project: "p", name: "trained", base_model: "last" });
    // Its adapter adds nothing yet.
    const trained = await embed({ model: "local/p/trained", input: texts[0]! });
    expect(trained.model).toContain("trained:step0");
    expect(vectors(trained)).toEqual(vectors(await embed({ model: "last", input: texts[0]! })));
    await models.delete(model.id);
  });

  it("end with their request", async () => {
    const stop = new AbortController();
    const reason = new Error("enough");
    const asked = served.engine.embeddings.create(
      { model: "last", input: Array.from({ length: 2048 }, () => "z".repeat(400)) },
      { signal: stop.signal },
    );
    setTimeout(() => stop.abort(reason), 100);
    await expect(asked).rejects.toBe(reason);
    const loop = served.engine.core.bases.get("last")!.loop;
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(loop.stats()).toMatchObject({ running: 0, waiting: 0 });
  });
});

describe("what cannot be", () => {
  it("is a model that chats, and chatting with one that does not", async () => {
    expect((await refusal({ model: "chat", input: "x" }, "model")).msg).toContain("no embedding model");
    const hello = [{ role: "user", content: "x" }];
    for (const [path, body] of [
      ["/v1/chat/completions", { messages: hello, chat_template: "x" }],
      ["/v1/responses", { input: "x", chat_template: "x" }],
    ] as const) {
      const answer = await served.request("POST", path, { model: "last", ...body });
      expect(answer.status).toBe(422);
      expect(((await answer.json()) as Refusal).detail[0]!.msg).toContain("does not chat");
    }
    expect((await served.request("POST", "/v1/embeddings", { model: "none", input: "x" })).status).toBe(404);
  });

  it.each([
    [{}, "input"],
    [{ input: [] }, "input"],
    [{ input: [[]] }, "input.0"],
    [{ input: ["a", [1]] }, "input.1"],
    [{ input: [1, -1] }, "input.1"],
    [{ input: [[1, 9999]] }, "input.0"],
    [{ input: "", add_special_tokens: false }, "input"],
    [{ input: Array.from({ length: 2049 }, () => "a") }, "input"],
    [{ input: "a", encoding_format: "int8" }, "encoding_format"],
    [{ input: "a", dimensions: 0 }, "dimensions"],
    [{ input: "a", truncate_prompt_tokens: 513 }, "truncate_prompt_tokens"],
  ])("is refused by name: %j", async (body, field) => {
    await refusal({ model: "last", ...body } as Record<string, unknown>, field);
  });

  it("is refused before its elements are looked at", async () => {
    for (const body of [
      `{"model":"last","input":[${"{},".repeat(2_000_000)}1]}`,
      `{"model":"last","input":[[${"-1,".repeat(2_000_000)}1]]}`,
      `{"model":"last","input":${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
    ]) {
      const answer = await served.request("POST", "/v1/embeddings", body);
      expect([400, 413, 422]).toContain(answer.status);
      expect((await answer.text()).length).toBeLessThan(10_000);
    }
    expect((await embed({ model: "last", input: "a" })).data.length).toBe(1);
  });

  it.each([
    ["modules.json", '[{"type":"st.Dense","path":"2_Dense"}]', "Dense"],
    ["modules.json", "{}", "list"],
    ["modules.json", '[{"type":"st.Pooling","path":"../x"}]', "path"],
    ["1_Pooling/config.json", '{"pooling_mode_max_tokens":true}', "pooling_mode_max_tokens"],
    ["1_Pooling/config.json", '{"pooling_mode_mean_tokens":true,"pooling_mode_cls_token":true}', "pooling_mode"],
  ])("is a folder that asks for what is not computed: %s %s", async (file, text, said) => {
    const path = mkdtempSync(join(tmpdir(), "anneal-embedding-"));
    cpSync(join(reference, "model"), path, { recursive: true });
    writeFileSync(join(path, file), text);
    await expect(Engine.open({ models: [{ path }] })).rejects.toThrow(said);
    rmSync(path, { recursive: true });
  });
});
