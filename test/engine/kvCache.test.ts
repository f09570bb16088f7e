// The option `kvCache`: what of the engine must go on as it does with an exact cache, and what is recorded of it.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { runCommand } from "../../src/cli/command.js";
import { doctor } from "../../src/cli/doctor.js";
import { type ChatCompletion, Engine } from "../../src/index.js";
import { printed } from "../cli/printed.js";
import { EXACT_RATIOS, stepOnFreshRollouts } from "../fixtures/freshRollouts.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-kv-cache-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const tiny = fileURLToPath(new URL("../../models/tiny", import.meta.url));
const onnx = fileURLToPath(new URL("../reference/onnx/llama", import.meta.url));

const open = (more: object = {}) => Engine.open({ models: [{ id: "tiny", path: tiny }], kvCache: "int8", ...more });
/** Of more than two pages. */
const content = `Repeat these words: ${"river candle stone willow ".repeat(7)}`;
const request = {
  messages: [{ role: "user" as const, content }],
  temperature: 1,
  seed: 5,
  logprobs: true,
  ignore_eos: true,
  max_completion_tokens: 90,
};

const said = ({ choices }: ChatCompletion) =>
  choices.map(({ message, logprobs }) => [message.content, logprobs!.content]);

it("says the same from a cached prompt, for several choices, and after being computed again for want of pages", async () => {
  await using engine = await open();
  const first = await engine.chat.completions.create(request);
  const again = await engine.chat.completions.create(request);
  expect(again.usage!.prompt_tokens_details!.cached_tokens).toBeGreaterThan(128);
  expect(said(again)).toEqual(said(first));
  const three = await engine.chat.completions.create({ ...request, n: 3 });
  expect(said(three)[0]).toEqual(said(first)[0]);
  const beams = await engine.chat.completions.create({
    ...request,
    use_beam_search: true,
    n: 3,
    max_completion_tokens: 12,
    temperature: 0,
    seed: null,
  });
  expect(new Set(beams.choices.map((choice) => choice.message.content)).size).toBe(3);

  // Six sequences of four to five pages each, in pages for two.
  const scarce = { models: [{ id: "tiny", path: tiny, kvPages: 9 }], contextLength: 512, tokenBudget: 64 };
  await using small = await open(scarce);
  const together = await Promise.all(
    Array.from({ length: 6 }, (_, i) => small.chat.completions.create({ ...request, seed: 5 + i, cache_salt: `${i}` })),
  );
  expect(said(together[0]!)).toEqual(said(first));
  const metrics = await small.fetch(
    new Request("http://localhost/metrics", { headers: { authorization: `Bearer ${small.apiKey}` } }),
  );
  expect(await metrics.text()).toMatch(/num_preemptions\S* [1-9]/);
});

it("trains on the bits it samples with, and records what they are; the adapter loads on an exact cache too", async () => {
  const home = join(folder, "home");
  let name: string;
  {
    await using engine = await open({ home });
    const model = await engine.models.create({ project: "p", name: "speller", base_model: "tiny" });
    name = `${model.entity}/${model.project}/${model.name}`;
    const task = (word: string) => `${content}. Spell "${word}" backwards, one word.`;
    expect(await stepOnFreshRollouts(engine, model, task)).toMatchObject(EXACT_RATIOS);
  }
  const metas = readdirSync(home, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith("meta.json"));
  expect(metas.length).toBeGreaterThan(1);
  for (const meta of metas) {
    expect(JSON.parse(readFileSync(join(home, meta), "utf8"))).toMatchObject({ kv_cache: "int8" });
  }
  await using exact = await open({ home, kvCache: "exact" });
  const reply = await exact.chat.completions.create({ ...request, model: name });
  expect(reply.usage!.completion_tokens).toBe(90);
});

it("is told where memory is told", async () => {
  await using engine = await open();
  const { memory } = await engine.models.inspect("tiny");
  const exact = await engine.models.inspect(tiny);
  // Heads of 32 elements: 36 bytes for 64.
  expect(memory.per_token / exact.memory.per_token).toBe(36 / 64);
  expect(memory.weights).toBe(exact.memory.weights);
  const cache = async (...flags: string[]) => {
    const { out } = await printed(() => runCommand(doctor, [tiny, ...flags]));
    return Number(/([\d.]+) kB of cache per token/.exec(out)![1]);
  };
  expect((await cache("--kv-cache", "int8")) / (await cache())).toBeCloseTo(36 / 64, 1);
});

it("can be one model's own, and is refused where there is none", async () => {
  const models = [
    { id: "a", path: tiny, kvPages: 40, kvCache: "exact" as const },
    { id: "b", path: tiny, kvPages: 40 },
  ];
  await using engine = await open({ models });
  const [a, b] = await Promise.all(["a", "b"].map((model) => engine.chat.completions.create({ ...request, model })));
  await using exact = await open({ models: [{ id: "tiny", path: tiny }], kvCache: "exact" });
  expect(said(a!)).toEqual(said(await exact.chat.completions.create(request)));
  expect(said(a!)).not.toEqual(said(b!));
  await expect(open({ models: [onnx] })).rejects.toThrow(/llama: is computed as ONNX, whose cache is exact/);
});
