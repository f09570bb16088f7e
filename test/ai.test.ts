// The provider for the `ai` package, as applications use it: text, streams, objects, an agent's loop, vectors; in process, without a port.

import { fileURLToPath } from "node:url";
import type { EmbeddingModelV4, LanguageModelV4, ProviderV4 } from "@ai-sdk/provider";
import {
  embed,
  embedMany,
  generateObject,
  generateText,
  jsonSchema,
  Output,
  stepCountIs,
  streamText,
  ToolLoopAgent,
  tool,
} from "ai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { type AnnealProvider, createAnneal } from "../src/ai/index.js";
import { Engine } from "../src/anneal.js";
import { agentModel } from "./conformance/agentModel.js";
import { removeBigramModels } from "./conformance/bigramModel.js";
import { Served } from "./conformance/served.js";

let engine: Engine;
let anneal: AnnealProvider;
beforeAll(async () => {
  const { model } = await agentModel("agent");
  const path = fileURLToPath(new URL("reference/embedding/model", import.meta.url));
  // Without guesses a reply that repeats itself takes its time.
  engine = await Engine.open({ models: [model, { id: "vectors", path }], threads: 2, speculation: "none" });
  await engine.models.create({ project: "demo", name: "speller", base_model: "agent" });
  anneal = createAnneal(engine);
});
afterAll(async () => {
  await engine?.close();
  removeBigramModels();
});

const calls: string[] = [];
const tools = {
  weather: tool({
    description: "The weather of a city.",
    inputSchema: z.object({ city: z.string() }),
    execute: ({ city }) => {
      calls.push(city);
      return { city, sky: "cold" };
    },
  }),
  time: tool({ inputSchema: z.object({}), execute: () => "noon" }),
};
const report = z.object({ city: z.string(), degrees: z.number() });
const maxRetries = 0;

it("is of the specification's own types", () => {
  const provider: ProviderV4 = anneal;
  const language: LanguageModelV4 = anneal("agent");
  const embedding: EmbeddingModelV4 = anneal.embeddingModel("vectors");
  for (const { specificationVersion } of [provider, language, embedding]) expect(specificationVersion).toBe("v4");
});

describe("a language model", () => {
  it("generates text, of trained models by their short names too", async () => {
    for (const id of ["agent", "demo/speller", "demo/speller:step0", "local/demo/speller"]) {
      const { text, usage, finishReason, response, warnings } = await generateText({
        model: anneal(id),
        prompt: "Hi",
        maxRetries,
      });
      expect(text).toBe("Good day to you.");
      expect(finishReason).toBe("stop");
      expect(usage).toMatchObject({ outputTokens: 6 });
      expect(response.modelId).toContain(id === "agent" ? "agent" : "speller:step0");
      expect(warnings ?? []).toEqual([]);
    }
    const cut = await generateText({ model: anneal("agent"), prompt: "Hi", maxOutputTokens: 2, maxRetries });
    expect([cut.text, cut.finishReason]).toEqual(["Good day", "length"]);
  });

  it("streams the same", async () => {
    const result = streamText({ model: anneal("demo/speller"), prompt: "Hi", maxRetries });
    const deltas: string[] = [];
    for await (const delta of result.textStream) deltas.push(delta);
    expect(deltas).toEqual(["Good", " day", " to", " you", "."]);
    expect(await result.finishReason).toBe("stop");
    expect(await result.usage).toMatchObject({ outputTokens: 6 });
  });

  it("takes what chat completions take, by the package's names and by its own", async () => {
    const { text } = await generateText({
      model: anneal("agent"),
      prompt: "loop",
      stopSequences: ["tick"],
      maxRetries,
    });
    expect(text).toBe("");
    const limited = await generateText({
      model: anneal("agent"),
      prompt: "loop",
      maxRetries,
      providerOptions: { anneal: { repetition_detection: { max_pattern_size: 1, min_pattern_size: 1, min_count: 3 } } },
    });
    expect([limited.text, limited.finishReason]).toEqual(["tickticktick", "other"]);
    const wrong = generateText({
      model: anneal("agent"),
      prompt: "x",
      maxRetries,
      providerOptions: { anneal: { no_such: 1 } },
    });
    await expect(wrong).rejects.toMatchObject({ code: "invalid_request", param: "no_such" });
  });

  it("tells the first of several choices, in one piece and streamed", async () => {
    const asked = { model: anneal("agent"), prompt: "Hi", maxRetries, providerOptions: { anneal: { n: 2 } } };
    expect((await generateText(asked)).text).toBe("Good day to you.");
    expect(await streamText(asked).text).toBe("Good day to you.");
  });

  it.each(["model", "messages", "stream", "stream_options"])("refuses %s, which the call itself sets", async (name) => {
    const asked = { prompt: [], providerOptions: { anneal: { [name]: true } } };
    const refusal = { code: "invalid_request", param: `providerOptions.anneal.${name}` };
    await expect(anneal("agent").doGenerate(asked)).rejects.toMatchObject(refusal);
    await expect(anneal("agent").doStream(asked)).rejects.toMatchObject(refusal);
  });

  it("writes objects that follow a schema", async () => {
    const { object } = await generateObject({ model: anneal("agent"), schema: report, prompt: "json", maxRetries });
    expect(object).toEqual({ city: "Oslo", degrees: -3 });
    const { output } = await generateText({
      model: anneal("agent"),
      output: Output.object({ schema: report }),
      prompt: "json",
      maxRetries,
    });
    expect(output).toEqual({ city: "Oslo", degrees: -3 });
    const streamed = streamText({
      model: anneal("agent"),
      output: Output.object({ schema: report }),
      prompt: "json",
      maxRetries,
    });
    expect(await streamed.output).toEqual({ city: "Oslo", degrees: -3 });
    const refused = generateObject({
      model: anneal("agent"),
      schema: jsonSchema({ type: "string", pattern: "(?<=a)b" }),
      prompt: "json",
      maxRetries,
    });
    await expect(refused).rejects.toMatchObject({ code: "invalid_request" });
  });

  it("calls tools until it answers, with its thoughts between", async () => {
    const { text, steps } = await generateText({
      model: anneal("agent"),
      tools,
      prompt: "Weather?",
      stopWhen: stepCountIs(5),
      maxRetries,
    });
    expect(text).toBe("It is cold in Oslo.");
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
    expect(steps[0]!.reasoningText).toBe("Which tool?");
    expect(steps[0]!.toolResults).toMatchObject([{ input: { city: "Oslo" }, output: { sky: "cold" } }]);
    const stream = streamText({ model: anneal("agent"), tools, prompt: "Both?", stopWhen: stepCountIs(5), maxRetries });
    const parts: string[] = [];
    for await (const { type } of stream.fullStream) parts.push(type);
    expect(await stream.text).toBe("It is cold in Oslo.");
    expect((await stream.steps)[0]!.toolCalls.map(({ toolName }) => toolName)).toEqual(["weather", "time"]);
    for (const type of ["tool-input-start", "tool-input-delta", "tool-input-end", "tool-call", "tool-result"]) {
      expect(parts).toContain(type);
    }
    const forced = await generateText({
      model: anneal("agent"),
      tools,
      toolChoice: { type: "tool", toolName: "weather" },
      prompt: "x",
      maxRetries,
    });
    expect(forced.toolCalls).toMatchObject([{ toolName: "weather", input: { city: "Oslo" } }]);
    expect(
      (await generateText({ model: anneal("agent"), tools, toolChoice: "none", prompt: "x", maxRetries })).toolCalls,
    ).toEqual([]);
  });

  it("calls tools before it answers with an object", async () => {
    const params = {
      ...{ model: anneal("agent"), tools, output: Output.object({ schema: report }), maxRetries },
      ...{ prompt: "Report the weather", stopWhen: stepCountIs(5) },
    };
    const { output, steps } = await generateText(params);
    expect(output).toEqual({ city: "Oslo", degrees: -3 });
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
    expect(steps[0]!.toolResults).toMatchObject([{ input: { city: "Oslo" }, output: { sky: "cold" } }]);
    const streamed = streamText(params);
    expect(await streamed.output).toEqual({ city: "Oslo", degrees: -3 });
    expect((await streamed.steps)[0]!.toolCalls.map(({ toolName }) => toolName)).toEqual(["weather"]);
  });

  it("makes no call that a stop has cut, in streams neither", async () => {
    const params = { model: anneal("agent"), tools, prompt: "Weather?", stopWhen: stepCountIs(5), maxRetries };
    const cut = { ...params, stopSequences: ['"city'] };
    const { steps } = await generateText(cut);
    expect(steps.map(({ toolCalls, finishReason }) => [toolCalls, finishReason])).toEqual([[[], "stop"]]);
    const streamed = await streamText(cut).steps;
    expect(streamed.map(({ toolCalls, finishReason }) => [toolCalls, finishReason])).toEqual([[[], "stop"]]);
  });

  it("is an agent's", async () => {
    const agent = new ToolLoopAgent({ model: anneal("demo/speller"), tools, instructions: "Help." });
    const before = calls.length;
    const { text } = await agent.generate({ prompt: "Weather?" });
    expect([text, calls.slice(before)]).toEqual(["It is cold in Oslo.", ["Oslo"]]);
    const streamed = await agent.stream({ prompt: "Weather?" });
    expect(await streamed.text).toBe("It is cold in Oslo.");
  });

  it("ends when it is aborted or left", async () => {
    const running = () => engine.core.defaultBase.loop.stats().running;
    const stop = new AbortController();
    const asked = generateText({ model: anneal("agent"), prompt: "loop", abortSignal: stop.signal, maxRetries });
    setTimeout(() => stop.abort(new Error("enough")), 50);
    await expect(asked).rejects.toThrow("enough");
    const { stream } = await anneal("agent").doStream({
      prompt: [{ role: "user", content: [{ type: "text", text: "loop" }] }],
    });
    const reader = stream.getReader();
    for (let i = 0; i < 5; i++) await reader.read();
    expect(running()).toBe(1);
    await reader.cancel();
    expect(running()).toBe(0);
  });

  it("says what cannot be", async () => {
    await expect(generateText({ model: anneal("no/such"), prompt: "x", maxRetries })).rejects.toMatchObject({
      code: "model_not_found",
    });
    const image = new Uint8Array([1, 2, 3]);
    const content = [{ type: "file" as const, data: image, mediaType: "image/png" }];
    const shown = generateText({ model: anneal("agent"), messages: [{ role: "user", content }], maxRetries });
    await expect(shown).rejects.toThrow("only texts");
    expect(() => anneal.imageModel("x")).toThrow("no model");
  });
});

it("makes vectors", async () => {
  const model = anneal.embeddingModel("vectors");
  const { embedding, usage } = await embed({ model, value: "a", maxRetries });
  expect(embedding.length).toBe(64);
  expect(usage.tokens).toBe(2);
  const { embeddings } = await embedMany({ model, values: ["a", "b"], maxRetries });
  expect(embeddings[0]).toEqual(embedding);
  const { data } = await engine.embeddings.create({ model: "vectors", input: "a" });
  expect(data[0]!.embedding).toEqual(embedding);
  for (const name of ["model", "input", "encoding_format"]) {
    const refused = embed({ model, value: "a", maxRetries, providerOptions: { anneal: { [name]: "base64" } } });
    await expect(refused).rejects.toMatchObject({ param: `providerOptions.anneal.${name}` });
  }
});

it("opens an engine when it is first needed, takes one behind an address, and tries again after a failure", async () => {
  const { model } = await agentModel("lazy");
  let opened = 0;
  const lazy = createAnneal(() => {
    if (++opened === 1) throw new Error("not yet");
    return Engine.open({ models: [model], threads: 1 });
  });
  const text = async () => (await generateText({ model: lazy("lazy"), prompt: "Hi", maxRetries })).text;
  expect(opened).toBe(0);
  await expect(text()).rejects.toThrow("not yet");
  expect(await Promise.all([text(), text()])).toEqual(["Good day to you.", "Good day to you."]);
  expect(opened).toBe(2);
  await (await lazy.engine()).close();
  const served = await Served.open({ models: [model] });
  const remote = createAnneal(await Engine.connect(served.address, { apiKey: served.engine.apiKey }));
  const { steps } = await generateText({
    model: remote("lazy"),
    tools,
    prompt: "Weather?",
    stopWhen: stepCountIs(5),
    maxRetries,
  });
  expect(steps.length).toBe(2);
  await served.close();
});
