// Models, tokenizing, metrics, the description of it all, health.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chatCompletionCreate } from "../../src/schemas/chat.js";
import { CONTEXT } from "./bigramModel.js";
import { scriptedModel, start, turns } from "./scripted.js";
import { hello, Served } from "./served.js";

let served: Served;
let ids: Record<string, number>;
beforeAll(async () => {
  const [one, two] = await Promise.all([scriptedModel("m"), scriptedModel("other", { template: null })]);
  ids = one.ids;
  served = await Served.open({ models: [one.model, two.model] });
});
afterAll(() => served?.close());

async function json<T = Record<string, unknown>>(method: string, path: string, body?: Record<string, unknown>) {
  const response = await served.request(method, path, body);
  return { status: response.status, body: (await response.json()) as T };
}

describe("models", () => {
  interface Card {
    id: string;
    object: string;
    parent: string | null;
    root: string;
  }

  test("are listed with cards", async () => {
    const { body } = await json<{ object: string; data: Card[] }>("GET", "/v1/models");
    expect(body.object).toBe("list");
    expect(body.data.map(({ id }) => id)).toEqual(["m", "other"]);
    for (const card of body.data) {
      expect(card).toMatchObject({
        object: "model",
        created: expect.any(Number),
        owned_by: expect.any(String),
        root: expect.any(String),
        parent: null,
        max_model_len: CONTEXT,
      });
    }
  });

  test("adapters follow, with the base model as parent, and answer under their name", async () => {
    const made = await json("POST", "/v1/preview/models", { project: "p", name: "a", base_model: "m" });
    expect(made.status).toBe(200);
    const { body } = await json<{ data: Card[] }>("GET", "/v1/models");
    const card = body.data.find(({ parent }) => parent === "m")!;
    expect(card.id).toContain("p/a");
    const answer = await served.chat({ model: card.id, ...start("[words]") });
    expect(answer.model).toContain("p/a");
    // Trained models report what training needs, unasked.
    const choice = answer.choices[0]!;
    expect(choice.token_ids).toHaveLength(6);
    expect(choice.logprobs!.content[0]!.token).toBe(`token_id:${ids.One}`);
    expect(answer.prompt_token_ids).toHaveLength(9);
    // Base models beside them do not.
    expect((await served.chat(start("[words]"))).choices[0]).toMatchObject({ token_ids: null, logprobs: null });
  });

  test("one is shown by its name, an unknown one is not found", async () => {
    expect((await json("GET", "/v1/models/m")).body).toMatchObject({ id: "m" });
    expect((await json("GET", "/v1/models/nobody")).status).toBe(404);
  });

  test("the project header changes nothing", async () => {
    const response = await served.request("GET", "/v1/models", undefined, { headers: { "Compat-Project": "t/p" } });
    expect(response.status).toBe(200);
    await response.text();
  });
});

describe("tokenize", () => {
  test("texts, with what the tokenizer adds unless told otherwise", async () => {
    const { body } = await json("POST", "/tokenize", { prompt: "One two!" });
    expect(body).toEqual({
      count: 4,
      max_model_len: CONTEXT,
      tokens: [ids["<|bos|>"], ids.One, ids[" two"], 33],
      token_strs: null,
    });
    const bare = await json("POST", "/tokenize", {
      prompt: "One two!",
      add_special_tokens: false,
      return_token_strs: true,
    });
    expect(bare.body).toMatchObject({ count: 3, token_strs: ["One", " two", "!"] });
    expect((await json("POST", "/tokenize", { prompt: "" })).body).toMatchObject({ count: 1 });
  });

  test("conversations as a completion's prompt", async () => {
    const shapes: Record<string, unknown>[] = [
      {},
      { add_generation_prompt: false },
      { add_special_tokens: true },
      { ...start("[words]") },
      { chat_template: "own {{ messages[0].content }}" },
      { tools: [{ type: "function", function: { name: "f" } }], chat_template: "{{ tools }}" },
      { messages: [...hello, { role: "assistant", content: "x" }], continue_final_message: true },
    ];
    for (const shape of shapes) {
      const body = { messages: hello, ...shape };
      const { prompt_token_ids } = await served.chat({ ...body, max_tokens: 1, return_token_ids: true });
      const tokenized = await json<{ tokens: number[]; count: number }>("POST", "/tokenize", body);
      expect(tokenized.body.tokens, JSON.stringify(shape)).toEqual(prompt_token_ids);
      expect(tokenized.body.count).toBe(prompt_token_ids!.length);
    }
  });

  test("whatever else a completion's request says", async () => {
    const body = `{"messages":[{"role":"user","content":"One two"}],"seed":9223372036854775807,"n":2}`;
    expect((await served.request("POST", "/tokenize", body)).status).toBe(200);
  });

  test("what cannot be", async () => {
    expect((await json("POST", "/tokenize", {})).status).toBe(422);
    expect((await json("POST", "/tokenize", { prompt: 5 })).status).toBe(422);
    expect((await json("POST", "/tokenize", { prompt: "x", model: "nobody" })).status).toBe(404);
    expect((await json("POST", "/tokenize", { messages: hello, model: "other" })).status).toBe(422);
  });

  test("and back", async () => {
    const back = (body: Record<string, unknown>) => json("POST", "/detokenize", body);
    expect((await back({ tokens: [ids.One, ids[" two"], ids["<|end|>"]] })).body).toEqual({ prompt: "One two<|end|>" });
    expect((await back({ tokens: [] })).body).toEqual({ prompt: "" });
    expect((await back({ tokens: [ids.One, 1e6, ids[" two"]] })).body).toEqual({ prompt: "One two" });
    expect((await back({ tokens: [ids.One], model: "" })).body).toEqual({ prompt: "One" });
    expect((await back({ tokens: [1e12] })).status).toBe(422);
    expect((await back({ tokens: [-1] })).status).toBe(422);
    expect((await back({ tokens: [5], model: "nobody" })).status).toBe(404);
  });

  test("of a tokenizer that others use", async () => {
    const told = (await json("GET", "/tokenizer_info")).body;
    expect(told).toEqual({
      ...{ model_max_length: expect.any(Number), chat_template: turns },
      ...{ bos_token: "<|bos|>", eos_token: "<|end|>", unk_token: null, pad_token: null },
    });
    expect((await json("GET", "/tokenizer_info?model=m")).body).toEqual(told);
    expect((await json("GET", "/tokenizer_info?model=nobody")).status).toBe(404);
  });
});

describe("metrics", () => {
  const read = async () => (await served.request("GET", "/metrics")).text();
  const value = (text: string, name: string, label = 'model_name="m"') => {
    const line = text.split("\n").find((one) => one.startsWith(`vllm:${name}{`) && one.includes(label));
    return line === undefined ? undefined : Number(line.split(" ").at(-1));
  };

  test("have every name dashboards ask for, with help and type", async () => {
    await served.chat({ ...start("[words]"), n: 2 });
    const text = await read();
    const gauges = [
      "num_requests_running",
      "num_requests_waiting",
      "num_requests_waiting_by_reason",
      "engine_sleep_state",
      "kv_cache_usage_perc",
      "cache_config_info",
      "lora_requests_info",
    ];
    const counters = [
      ...[
        "prompt_tokens",
        "prompt_tokens_cached",
        "prompt_tokens_by_source",
        "generation_tokens",
        "num_preemptions",
        "prefix_cache_queries",
        "prefix_cache_hits",
        "spec_decode_num_drafts",
        "spec_decode_num_draft_tokens",
        "spec_decode_num_accepted_tokens",
      ],
      "request_success",
    ];
    const histograms = [
      ...["time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds"],
      ...["e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds"],
      ...["request_decode_time_seconds", "request_inference_time_seconds", "request_prompt_tokens"],
      ...["request_generation_tokens", "request_max_num_generation_tokens", "request_params_n"],
      ...["request_params_max_tokens", "iteration_tokens_total", "request_prefill_kv_computed_tokens"],
    ];
    for (const [name, kind] of Object.entries({
      process_cpu_seconds_total: "counter",
      process_resident_memory_bytes: "gauge",
      process_start_time_seconds: "gauge",
    })) {
      expect(text).toMatch(new RegExp(`^# TYPE ${name} ${kind}\\n${name} (?=[0.]*[1-9])[\\d.]+$`, "m"));
    }
    for (const name of gauges) expect(text).toContain(`# TYPE vllm:${name} gauge`);
    for (const name of counters) expect(text).toContain(`# TYPE vllm:${name}_total counter`);
    for (const name of histograms) {
      expect(text).toContain(`# TYPE vllm:${name} histogram`);
      expect(text).toMatch(new RegExp(`vllm:${name}_bucket\\{[^}]*le="\\+Inf"\\} \\d`));
    }
    for (const name of gauges) expect(text).toContain(`# HELP vllm:${name} `);
  });

  test("count tokens and ends", async () => {
    const before = await read();
    await served.chat({ ...start("[words]"), n: 2 });
    await served.chat({ ...start("[words]"), max_tokens: 1 });
    const after = await read();
    const grown = (name: string, label?: string) =>
      (value(after, name, label) ?? 0) - (value(before, name, label) ?? 0);
    expect(grown("prompt_tokens_total")).toBe(18);
    expect(grown("generation_tokens_total")).toBe(13);
    expect(grown("request_success_total", 'finished_reason="length"')).toBe(1);
    expect(grown("request_success_total", 'finished_reason="stop"')).toBe(2);
    // One observation per pair of tokens: twice six, and one alone.
    expect(grown("inter_token_latency_seconds_count")).toBe(10);
    expect(grown("request_params_n_count")).toBe(2);
  });

  test("count requests over HTTP by handler, method and status", async () => {
    const count = async (labels: string) => {
      const line = (await read()).split("\n").find((one) => one.startsWith(`http_requests_total{${labels}}`));
      return Number(line?.split(" ").at(-1) ?? 0);
    };
    const chat = 'handler="/v1/chat/completions",method="POST",status=';
    const before = { fine: await count(`${chat}"2xx"`), refused: await count(`${chat}"4xx"`) };
    await served.chat({ ...start("[words]") });
    await served.chunks({ ...start("[words]") });
    await (await served.post({ n: 0 })).text();
    await served.request("GET", "/v1/preview/models/nobody");
    await served.request("GET", "/nowhere");
    expect(await count(`${chat}"2xx"`)).toBe(before.fine + 2);
    expect(await count(`${chat}"4xx"`)).toBe(before.refused + 1);
    expect(await count('handler="/v1/preview/models/{model_id}",method="GET",status="4xx"')).toBe(1);
    expect(await count('handler="none",method="GET",status="4xx"')).toBe(1);
    const text = await read();
    expect(text).toContain("# TYPE http_request_duration_seconds histogram");
    expect(text).toMatch(
      /http_request_duration_seconds_bucket\{handler="\/v1\/chat\/completions",method="POST",le="\+Inf"\} \d/,
    );
    expect(text).toMatch(/http_request_duration_highr_seconds_count \d/);
  });

  test("name the adapters in use, and come to rest after a client has gone", async () => {
    const made = await json("POST", "/v1/preview/models", { project: "p", name: "used", base_model: "m" });
    expect(made.status).toBe(200);
    const gone = new AbortController();
    const body = { model: "local/p/used", ...start("[loop]"), n: 300, stream: true, messages: hello };
    const response = await served.post(body, { signal: gone.signal });
    expect(response.status).toBe(200);
    await response.body!.getReader().read();
    expect(await read()).toMatch(
      /vllm:lora_requests_info\{[^}]*max_lora="64"[^}]*running_lora_adapters="[^"]*used[^"]*"/,
    );
    // Others see that somebody asks, and not whom.
    const { key } = (await json("POST", "/v1/preview/keys", { entity: "team" })).body as { key: string };
    const others = await served.request("GET", "/metrics", undefined, { headers: { authorization: `Bearer ${key}` } });
    const theirs = await others.text();
    expect(theirs).not.toContain("used");
    expect(value(theirs, "num_requests_running")).toBe(value(await read(), "num_requests_running"));
    gone.abort();
    const deadline = Date.now() + 5000;
    while (value(await read(), "num_requests_running") !== 0 && Date.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const text = await read();
    expect(value(text, "num_requests_running")).toBe(0);
    expect(value(text, "kv_cache_usage_perc")).toBe(0);
    expect(text).not.toMatch(/running_lora_adapters="[^"]*used/);
  });
});

test("openapi.json describes every field of a request", async () => {
  interface Document {
    openapi: string;
    paths: Record<string, { post?: { requestBody: { content: Record<string, { schema: { $ref: string } }> } } }>;
    components: { schemas: Record<string, { properties: object; required: string[] }> };
  }
  const { body } = await json<Document>("GET", "/openapi.json");
  expect(body.openapi).toMatch(/^3\./);
  const { $ref } = body.paths["/v1/chat/completions"]!.post!.requestBody.content["application/json"]!.schema;
  const schema = body.components.schemas[$ref.replace("#/components/schemas/", "")]!;
  expect(Object.keys(schema.properties).length).toBeGreaterThanOrEqual(61);
  expect(Object.keys(schema.properties)).toEqual(Object.keys(chatCompletionCreate.shape));
  expect(schema.required).toEqual(["messages"]);
  for (const path of ["/v1/chat/completions/", "/v1/models", "/v1/health", "/tokenize", "/metrics"]) {
    expect(body.paths).toHaveProperty([path]);
  }
});

test("health and system-check answer", async () => {
  expect((await json("GET", "/v1/health")).status).toBe(200);
  expect((await json("GET", "/v1/system-check")).status).toBe(200);
});
