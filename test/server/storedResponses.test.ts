// Responses after they were made, or while: what goes before others, what is kept, who may see it, what is made in the background.

import { describe, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import { agentModel } from "../conformance/agentModel.js";
import type { Refusal } from "../conformance/served.js";
import { followsTheProtocol } from "./responseProtocol.js";
import { last, ServedResponses, tools } from "./servedResponses.js";

const http = new ServedResponses();
const { ask, events, refusal } = http;

describe("what goes before", () => {
  it("is the stored response's input and output, and those before it", async () => {
    const first = await ask({ input: "Weather?", tools, instructions: "Only now." });
    const call = first.output.find((item) => item.type === "function_call")!;
    const output = { type: "function_call_output", call_id: call.call_id, output: "cold" };
    const second = await ask({ previous_response_id: first.id, input: [output], tools });
    expect(second.output).toMatchObject([{ type: "message", content: [{ text: "It is cold in Oslo." }] }]);
    expect(second.previous_response_id).toBe(first.id);
    const third = await ask({ previous_response_id: second.id, input: "Thanks" });
    // The same conversation written out.
    const written = await ask({
      input: [
        { role: "user", content: "Weather?" },
        ...first.output,
        output,
        ...second.output,
        { role: "user", content: [{ type: "input_text", text: "Thanks" }] },
      ],
    });
    expect(written.usage!.input_tokens).toBe(third.usage!.input_tokens);
    // References to what was put out stand for it.
    const referred = await ask({
      input: [
        { role: "user", content: "Weather?" },
        ...first.output.map(({ id }) => ({ type: "item_reference", id })),
        output,
        ...second.output.map(({ id }) => ({ type: "item_reference", id })),
        { role: "user", content: "Thanks" },
      ],
    });
    expect(referred.usage!.input_tokens).toBe(third.usage!.input_tokens);
  });

  it("is a NotFoundError where it is gone, was not kept, or is another's", async () => {
    const kept = await ask({ input: "Hi" });
    const fleeting = await ask({ input: "Hi", store: false });
    const { key } = await http.served.engine.keys.create({ entity: "other" });
    const theirs = { headers: { authorization: `Bearer ${key}` } };
    const path = `/v1/responses/${kept.id}`;
    for (const [method, at] of [
      ["GET", path],
      ["DELETE", path],
      ["POST", `${path}/cancel`],
      ["GET", `${path}/input_items`],
    ] as const) {
      expect((await http.served.request(method, at, undefined, theirs)).status, at).toBe(404);
    }
    const goOn = (id: string, init?: RequestInit) =>
      http.served.request("POST", "/v1/responses", { previous_response_id: id, input: "x" }, init);
    expect((await goOn(kept.id, theirs)).status).toBe(404);
    expect((await goOn(fleeting.id)).status).toBe(404);
    const item = [{ type: "item_reference", id: kept.output[0]!.id }];
    expect((await http.served.request("POST", "/v1/responses", { input: item }, theirs)).status).toBe(404);
    expect((await goOn(kept.id)).status).toBe(200);
    expect(await (await http.served.request("DELETE", path)).json()).toEqual({
      id: kept.id,
      object: "response",
      deleted: true,
    });
    const gone = await goOn(kept.id);
    expect([gone.status, ((await gone.json()) as Refusal).error.code]).toEqual([404, "previous_response_not_found"]);
  });

  it("is cut where it does not fit and that is wished, by whole turns, the system's words kept", async () => {
    const turn = (i: number) => [
      { role: "user", content: `${i} ${"x".repeat(200)}` },
      { role: "assistant", content: "yes" },
    ];
    const input = [
      { role: "system", content: "S" },
      ...Array.from({ length: 20 }, (_, i) => turn(i)).flat(),
      { role: "user", content: "Hi" },
    ];
    const { detail, error } = await refusal({ input }, "input");
    expect([detail[0]!.type, error.code]).toEqual(["context_length_exceeded", "context_length_exceeded"]);
    expect(error.message).toContain("truncation");
    const fitted = await ask({ input, truncation: "auto", max_output_tokens: 1 });
    const tokens = fitted.usage!.input_tokens;
    expect(tokens).toBeLessThan(2048);
    // One turn more would be too much.
    expect(tokens).toBeGreaterThan(2048 - 220);
  });
});

describe("what is kept", () => {
  it("can be read, with its input, also in events", async () => {
    const made = await ask({ input: [{ role: "user", content: "Weather?" }], tools, top_logprobs: 1 });
    expect(await (await http.served.request("GET", `/v1/responses/${made.id}`)).json()).toEqual(made);
    expect(await http.client.responses.retrieve(made.id)).toMatchObject({ id: made.id, output: made.output });
    const items = await http.client.responses.inputItems.list(made.id);
    expect(items.data).toMatchObject([
      { type: "message", role: "user", content: [{ type: "input_text", text: "Weather?" }] },
    ]);
    const told = await (await http.served.request("GET", `/v1/responses/${made.id}?stream=true`)).text();
    expect(last(followsTheProtocol(told))).toEqual(made);
    const after = await (
      await http.served.request("GET", `/v1/responses/${made.id}?stream=true&starting_after=3`)
    ).text();
    expect(after).toMatch(/^event: response.completed\n/);
    expect((await http.client.responses.retrieve(made.id, { stream: true })).controller).toBeDefined();
  });

  it("is listed in pages, from either end", async () => {
    const input = Array.from({ length: 45 }, (_, i) => ({ role: "user", content: `${i}` }));
    const { id } = await ask({ input });
    const texts: string[] = [];
    for await (const item of http.client.responses.inputItems.list(id, { limit: 20, order: "asc" })) {
      texts.push((item as unknown as { content: { text: string }[] }).content[0]!.text);
    }
    expect(texts).toEqual(input.map(({ content }) => content));
    const page = await http.served.engine.responses.inputItems.list(id, { limit: 2 });
    expect(page.data).toMatchObject([{ content: [{ text: "44" }] }, { content: [{ text: "43" }] }]);
    expect(page.has_more).toBe(true);
    // The items of a response that goes on from it are others.
    const next = await ask({ previous_response_id: id, input: "more" });
    const elsewhere = http.client.responses.inputItems.list(next.id, { after: page.data[0]!.id });
    await expect(elsewhere).rejects.toMatchObject({ status: 404, param: "after" });
  });

  it("outlives the engine; what was being made then has failed", async () => {
    const { mkdtempSync, rmSync } = await import("node:fs");
    const home = mkdtempSync("/tmp/anneal-responses-");
    const { model } = await agentModel("demo");
    const open = () => Engine.open({ home, models: [model], threads: 1, speculation: "none" });
    const first = await open();
    const whole = await first.responses.create({ input: "Hi" });
    const running = await first.responses.create({ input: "loop", background: true });
    expect(running.status).toBe("queued");
    await first.close();
    const second = await open();
    expect(await second.responses.retrieve(whole.id)).toEqual(whole);
    expect((await second.responses.retrieve(running.id)).status).toBe("failed");
    await second.close();
    rmSync(home, { recursive: true });
  });
});

describe("in the background", () => {
  it("is answered at once, and is there later", async () => {
    const queued = await http.client.responses.create({ model: "demo", input: "Hi", background: true });
    expect(queued).toMatchObject({ status: "queued", background: true, output: [] });
    let now = await http.client.responses.retrieve(queued.id);
    while (now.status === "queued" || now.status === "in_progress")
      now = await http.client.responses.retrieve(queued.id);
    expect(now).toMatchObject({ status: "completed", output_text: "Good day to you." });
    // Cancelling what has ended changes nothing.
    expect((await http.client.responses.cancel(queued.id)).status).toBe("completed");
  });

  it("is cancelled, keeping what there was", async () => {
    const queued = await http.client.responses.create({
      model: "demo",
      input: "loop",
      background: true,
      max_output_tokens: 2000,
    });
    const cancelled = await http.client.responses.cancel(queued.id);
    expect(cancelled.status).toBe("cancelled");
    expect((await http.client.responses.retrieve(queued.id)).status).toBe("cancelled");
    const whole = await ask({ input: "Hi" });
    expect((await http.served.request("POST", `/v1/responses/${whole.id}/cancel`)).status).toBe(400);
  });

  it("is followed by several, from where each was", async () => {
    const body = { input: "Both", tools, background: true };
    const all = await events(body);
    expect(all.slice(0, 3).map(({ type }) => type)).toEqual([
      "response.created",
      "response.queued",
      "response.in_progress",
    ]);
    const { id } = last(all);
    const again = await (await http.served.request("GET", `/v1/responses/${id}?stream=true`)).text();
    expect(followsTheProtocol(again)).toEqual(all);
    const rest = await (await http.served.request("GET", `/v1/responses/${id}?stream=true&starting_after=4`)).text();
    const numbers = [...rest.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number));
    expect(numbers).toEqual(all.slice(5).map(({ sequence_number }) => sequence_number));
    await refusal({ input: "Hi", background: true, store: false }, "background");
  });
});
