// The OpenAPI document is valid, has every route, and says of each what a running engine really answers: no field more, none less.

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { validate } from "@readme/openapi-parser";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ChatCompletion } from "../../src/index.js";
import { Harness } from "./harness.js";

type Json = { [key: string]: Json } & { [index: number]: Json };
interface Answer {
  status: number;
  body: Json;
}

let server: Harness;
let document: Json;
let ajv: Ajv2020;
/** Operations that have answered 200. */
const succeeded = new Set<string>();

/** Objects without fields beyond those that are documented; others may be there, but in these tests none is. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== "object" || schema === null) return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  return "properties" in copy && copy.type === "object" ? { additionalProperties: false, ...copy } : copy;
}

beforeAll(async () => {
  const vectors = fileURLToPath(new URL("../reference/embedding/model", import.meta.url));
  const chat = fileURLToPath(new URL("../../models/tiny", import.meta.url));
  server = await Harness.open({ models: [{ path: chat }, { id: "vectors", path: vectors }] });
  document = (await server.call("GET", "/openapi.json")).body as unknown as Json;
  ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  ajv.addSchema(closed(document) as object, "document");
});
afterAll(() => server?.close());

/** The operation of a request: its path in the document. */
function pathOf(method: string, path: string): string {
  const matches = Object.keys(document.paths!).filter((template) => {
    const pattern = template
      .replace(/[.]/g, "\\.")
      .replace("{model}", ".+")
      .replace(/\{\w+\}/g, "[^/]+");
    return new RegExp(`^${pattern}$`).test(path) && method.toLowerCase() in document.paths![template]!;
  });
  // The one with the fewest parameters.
  return matches.sort((a, b) => a.split("{").length - b.split("{").length)[0] ?? expect.fail(`${method} ${path}`);
}

const pointer = (...parts: string[]) => parts.map((part) => part.replaceAll("~", "~0").replaceAll("/", "~1")).join("/");

function check(value: unknown, ...at: string[]): void {
  const validator = ajv.compile({ $ref: `document#/${pointer(...at)}` });
  if (!validator(value)) expect.fail(`${at.join(" ")}: ${ajv.errorsText(validator.errors)}\n${JSON.stringify(value)}`);
}

async function call(method: string, path: string, body?: unknown): Promise<Answer> {
  const template = pathOf(method, path.split("?")[0]!);
  const at = ["paths", template, method.toLowerCase()];
  const response = await server.request(method, path, body);
  const { status } = response;
  const text = await response.text();
  if (status === 200) {
    succeeded.add(`${method} ${template}`);
    if (body !== undefined && !(body instanceof Uint8Array)) {
      check(JSON.parse(JSON.stringify(body)), ...at, "requestBody", "content", "application/json", "schema");
    }
  }
  const { responses } = document.paths![template]![method.toLowerCase()]!;
  const said = responses![status] ? String(status) : "default";
  const type = response.headers.get("content-type")?.split(";")[0] ?? "";
  const { content } = responses![said]!;
  if (content === undefined) {
    expect(text, path).toBe("");
    return { status, body: {} };
  }
  expect(Object.keys(content), `${method} ${path} ${status}`).toContain(type);
  const schema = [...at, "responses", said, "content", type, "schema"];
  if (type === "text/event-stream") {
    const events = text.split("\n\n").filter((event) => event !== "");
    const areNamed = events[0]!.startsWith("event: ");
    if (!areNamed) expect(events.pop()).toBe("data: [DONE]");
    expect(events.length).toBeGreaterThan(1);
    for (const event of events) check(JSON.parse(event.slice(event.indexOf("data: ") + "data: ".length)), ...schema);
    return { status, body: {} };
  }
  if (type !== "application/json") return { status, body: {} };
  const parsed = JSON.parse(text) as Json;
  check(parsed, ...schema);
  return { status, body: parsed };
}

async function success(method: string, path: string, body?: unknown): Promise<Json> {
  const answer = await call(method, path, body);
  expect(answer.status, `${method} ${path} ${JSON.stringify(answer.body)}`).toBe(200);
  return answer.body;
}

const messages = [{ role: "user", content: "What is 3 + 4?" }];
const entries = (request: object) => ({ messages, max_tokens: 4, ...request });

test("is an OpenAPI document, with every component in use described", async () => {
  expect(await validate(structuredClone(document) as never)).toMatchObject({ valid: true });
  const { schemas } = document.components!;
  for (const [name, schema] of Object.entries(schemas!)) expect(schema.description, name).toBeTypeOf("string");
  for (const [path, methods] of Object.entries(document.paths!)) {
    for (const [method, { responses, requestBody, parameters }] of Object.entries(methods)) {
      for (const { name, description } of Object.values(parameters ?? {})) {
        expect(description, `${method} ${path} ${name}`).toBeTypeOf("string");
      }
      const contents = Object.values(responses!).flatMap(({ content }) => (content ? Object.values(content) : []));
      for (const { schema } of contents) expect(Object.keys(schema!), `${method} ${path}`).not.toEqual([]);
      if (method === "post" && !path.endsWith("/cancel") && !path.endsWith("{name}") && path !== "/ping") {
        expect(requestBody, path).toBeDefined();
      }
    }
  }
});

test("says what chat completions, tokens and the side routes answer", async () => {
  const everything = { logprobs: true, top_logprobs: 2, return_token_ids: true, prompt_logprobs: 1, n: 2, seed: 7 };
  for (const path of ["/v1/chat/completions", "/v1/chat/completions/"]) await success("POST", path, entries({}));
  await success("POST", "/v1/chat/completions", entries(everything));
  await success("POST", "/v1/chat/completions", entries({ echo: true, stop: ["7"], ignore_eos: true }));
  const tools = [{ type: "function", function: { name: "add", parameters: { type: "object", properties: {} } } }];
  const called = await success(
    "POST",
    "/v1/chat/completions",
    entries({ tools, tool_choice: "required", max_tokens: 64 }),
  );
  expect(called.choices![0]!.message!.tool_calls).toHaveLength(1);
  const stream = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };
  await success(
    "POST",
    "/v1/chat/completions",
    entries({ ...stream, logprobs: true, top_logprobs: 1, return_token_ids: true }),
  );
  await success("POST", "/v1/chat/completions", entries({ ...stream, tools, tool_choice: "required", max_tokens: 64 }));
  const { data } = await success("GET", "/v1/models");
  await success("GET", `/v1/models/${data![0]!.id}`);
  const { tokens } = await success("POST", "/tokenize", { prompt: "Hello there", return_token_strs: true });
  await success("POST", "/tokenize", { messages });
  await success("POST", "/detokenize", { tokens });
  await success("GET", "/tokenizer_info");
  const generate = (fields: object) =>
    success("POST", "/inference/v1/generate", { token_ids: tokens, return_token_ids: true, ...fields });
  const drawn = { max_tokens: 4, ignore_eos: true };
  await generate({ sampling_params: { ...drawn, logprobs: 1, prompt_logprobs: 1 } });
  await generate({ sampling_params: drawn, stream: true });
  for (const path of ["/v1/health", "/v1/system-check", "/load", "/metrics", "/openapi.json"])
    await success("GET", path);
  for (const path of ["/health", "/ping", "/version", "/docs"]) await success("GET", path);
  await success("POST", "/ping");
});

test("says what completions of plain prompts answer", async () => {
  const asked = { prompt: ["3 + 4 =", "5 + 5 ="], max_tokens: 3, logprobs: 1, echo: true, return_token_ids: true };
  await success("POST", "/v1/completions", { ...asked, prompt_logprobs: 1, n: 2 });
  const stream_options = { include_usage: true, continuous_usage_stats: true };
  await success("POST", "/v1/completions", { ...asked, stream: true, stream_options });
});

test("says what embeddings answer", async () => {
  const asked = { model: "vectors", input: ["a", "b"] };
  await success("POST", "/v1/embeddings", asked);
  await success("POST", "/v1/embeddings", { ...asked, input: [1, 2], encoding_format: "base64", dimensions: 4 });
});

test("says what messages answer", async () => {
  const asked = { model: "anneal/tiny", messages, tools: [{ name: "add", input_schema: {} }] };
  await success("POST", "/v1/messages", { ...asked, max_tokens: 4, system: "x" });
  await success("POST", "/v1/messages", { ...asked, max_tokens: 64, tool_choice: { type: "any" } });
  await success("POST", "/v1/messages", { ...asked, max_tokens: 64, tool_choice: { type: "any" }, stream: true });
  await success("POST", "/v1/messages/count_tokens", asked);
  expect((await call("POST", "/v1/messages", asked)).status).toBe(422);
  expect((await call("POST", "/v1/messages", { ...asked, max_tokens: 4, model: "none" })).status).toBe(404);
});

test("says what responses answer", async () => {
  const asked = { input: "What is 3 + 4?", max_output_tokens: 4 };
  const tools = [{ type: "function", name: "add", parameters: { type: "object", properties: {} } }];
  await success("POST", "/v1/responses", { ...asked, tools, stream: true, top_logprobs: 2 });
  const { id } = await success("POST", "/v1/responses", { ...asked, tools, top_logprobs: 2 });
  const output = { type: "function_call_output", call_id: "c", output: [{ type: "input_text", text: "7" }] };
  const call = { type: "function_call", call_id: "c", name: "add", arguments: "{}" };
  const input = [{ role: "user", content: "x" }, { type: "reasoning", summary: [] }, call, output];
  const more = await success("POST", "/v1/responses", { ...asked, input, previous_response_id: id });
  await success("GET", `/v1/responses/${id}`);
  await success("GET", `/v1/responses/${id}?stream=true`);
  await success("GET", `/v1/responses/${more.id}/input_items?order=asc`);
  const made = await success("POST", "/v1/responses", { ...asked, background: true });
  await success("POST", `/v1/responses/${made.id}/cancel`);
  await success("DELETE", `/v1/responses/${id}`);
});

test("says what models, jobs, events and everything around them answer", async () => {
  const optimizer = { rl: { beta1: 0.8 }, sft: null };
  const named = { project: "p", name: "m", base_model: "anneal/tiny", adapter: { rank: 2 }, optimizer };
  const { id } = await success("POST", "/v1/preview/models", named);
  const model = `/v1/preview/models/${id}`;
  await success("GET", model);
  await success("GET", "/v1/preview/base-models");
  const reply = await success("POST", "/v1/chat/completions", entries({ model: "local/p/m", n: 2, temperature: 0.8 }));
  await success("POST", "/v1/chat/completions", entries({ model: "local/p/m", stream: true, temperature: 0.8 }));
  const trajectories = (reply as unknown as ChatCompletion).choices.map((choice, i) => ({
    messages_and_choices: [...messages, choice],
    reward: i === 0,
    metrics: { right: i === 0 },
    metadata: { scenario: "sum" },
    logs: ["a line"],
    initial_policy_version: 0,
    start_time: new Date(0).toISOString(),
  }));
  const exceptions = [{ type: "Error", message: "broke off", traceback: null }];
  const trajectory_groups = [{ trajectories, exceptions, metrics: { hard: 1 } }];
  await success("POST", `${model}/log`, { split: "val", trajectory_groups });

  const run = {
    id: crypto.randomUUID(),
    name: null,
    first_step: 0,
    steps: 1,
    seed: "0",
    scenarios: 1,
    groups_per_step: 1,
  };
  const experimental_config = { learning_rate: 1e-4, ppo: true };
  const job = await success("POST", "/v1/preview/training-jobs", {
    model_id: id,
    trajectory_groups,
    experimental_config,
    run,
  });
  const path = `/v1/preview/training-jobs/${job.id}`;
  await server.engine.trainingJobs.wait(String(job.id));
  expect(await success("GET", path)).toMatchObject({ status: "succeeded", step: 1 });
  const events = await success("GET", `${path}/events?limit=100`);
  expect((events.data as unknown as { type: string }[]).map(({ type }) => type)).toEqual([
    "training_started",
    "gradient_step",
    "training_ended",
  ]);
  await success("POST", `${path}/cancel`);
  const data = [{ messages: [...messages, { role: "assistant", content: "7", weight: 1 }] }];
  const config = { num_epochs: 1, batch_size: "auto", metric_logging: { enabled: true } };
  await success("POST", "/v1/preview/sft-training-jobs/estimate", { model_id: id, data, config });
  await success("POST", "/v1/preview/training-jobs/estimate", { model_id: id, trajectory_groups: [] });
  const sft = await success("POST", "/v1/preview/sft-training-jobs", { model_id: id, data, config });
  await server.engine.trainingJobs.wait(String(sft.id));
  const long = await success("POST", "/v1/preview/sft-training-jobs", {
    model_id: id,
    data,
    config: { num_epochs: 9999 },
  });
  const cancelled = await success("POST", `/v1/preview/training-jobs/${long.id}/cancel`);
  expect(cancelled.status).toBe("cancelled");
  const last = await success("GET", `/v1/preview/training-jobs/${long.id}/events?limit=100`);
  expect((last.data as unknown as { type: string }[]).at(-1)).toMatchObject({ type: "training_failed" });
  await success("GET", `/v1/preview/training-jobs?model_id=${id}&order=desc`);
  await success("GET", `${model}/checkpoints`);
  await success("GET", `${model}/trajectories`);
  await success("GET", `${model}/metrics`);

  await success("POST", `${model}/export`, { path: join(server.home, "out"), step: 1 });
  const imported = { project: "p", name: "again", base_model: "anneal/tiny", path: join(server.home, "out") };
  await success("POST", "/v1/preview/models/import", imported);
  await success("POST", "/v1/load_lora_adapter", { lora_name: "again", lora_path: join(server.home, "out") });
  await success("POST", "/v1/unload_lora_adapter", { lora_name: "again" });
  await success("POST", `${model}/rollback`, { step: 1 });
  await success("DELETE", `${model}/checkpoints`, { steps: [2, 99] });

  const session = await server.engine.training.open(await server.engine.models.retrieve(String(id)));
  await success("GET", "/v1/preview/training-sessions");
  await success("DELETE", `/v1/preview/training-sessions/${session.id}`);

  const whole = await server.engine.training.open(await server.engine.models.retrieve(String(id)), { weights: "full" });
  await whole.saveState({ name: "whole" });
  await whole.close();
  await success("DELETE", "/v1/preview/base-models/whole");

  await success("PUT", "/v1/preview/artifacts/local/p/a/train.jsonl", new Uint8Array([123, 125]));
  await success("POST", "/v1/preview/artifacts/local/p/a");
  await success("GET", "/v1/preview/caller");
  const key = await success("POST", "/v1/preview/keys", { entity: "team", name: "theirs" });
  await success("GET", "/v1/preview/keys");
  await success("DELETE", `/v1/preview/keys/${key.id}`);
  await success("DELETE", model);
});

test("says what failures look like", async () => {
  const id = crypto.randomUUID();
  const failures: [number, string, string, unknown?][] = [
    [404, "POST", "/v1/chat/completions", entries({ model: "nobody" })],
    [422, "POST", "/v1/chat/completions", entries({ n: 0 })],
    [404, "GET", `/v1/preview/models/${id}`],
    [422, "POST", "/v1/preview/models", { project: "a/b" }],
    [422, "GET", `/v1/preview/models/${id}/checkpoints?limit=0`],
  ];
  for (const [status, method, path, body] of failures) {
    expect((await call(method, path, body)).status, `${method} ${path}`).toBe(status);
  }
  for (const path of ["/v1/models", "/v1/preview/keys"]) {
    const response = await server.handler(new Request(`http://test${path}`));
    expect(response.status).toBe(401);
    check(await response.json(), "paths", path, "get", "responses", "401", "content", "application/json", "schema");
  }
});

test("has been tried: every operation was seen to answer as it says", () => {
  const operations = Object.entries(document.paths!).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect([...succeeded].sort()).toEqual(operations.sort());
});
