// Clients that are no part of the tests' own packages, as they are published, against a port and in process. Needs ANNEAL_TEST_CLIENTS, a
// folder that has them: see clients.sh.

import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createAnneal } from "../../src/ai/index.js";
import { agentModel } from "../conformance/agentModel.js";
import { Served } from "../conformance/served.js";

const folder = process.env.ANNEAL_TEST_CLIENTS;
const PACKAGES = {
  openai: "openai",
  openaiZod: "openai/helpers/zod",
  ai: "ai",
  aiOpenai: "@ai-sdk/openai",
  aiOpenResponses: "@ai-sdk/open-responses",
  agents: "@openai/agents",
  langchain: "@langchain/openai",
  langchainTools: "@langchain/core/tools",
  langchainAgent: "langchain",
  mastraAgent: "@mastra/core/agent",
  mastraTools: "@mastra/core/tools",
  zod: "zod",
};

const GREETING = "Good day to you.";
const ANSWER = "It is cold in Oslo.";
const REPORT = { city: "Oslo", degrees: -3 };
const vectors = fileURLToPath(new URL("../reference/embedding/model", import.meta.url));

describe.runIf(folder)("published clients", () => {
  let served: Served;
  /** Modules of the folder, whose types are not known here. */
  let from: Record<keyof typeof PACKAGES, Awaited<ReturnType<typeof load>>>;

  const load = (path: string) => import(pathToFileURL(path).href);

  beforeAll(async () => {
    const { model } = await agentModel("demo");
    served = await Served.open({ models: [model, { id: "vectors", path: vectors }], speculation: "none" });
    const entry = join(folder!, "packages.js");
    const lines = Object.entries(PACKAGES).map(([name, path]) => `export * as ${name} from ${JSON.stringify(path)};\n`);
    writeFileSync(entry, lines.join(""));
    from = await load(entry);
    const versions = Object.values(PACKAGES).map((path) => {
      const name = path.split("/").slice(0, path.startsWith("@") ? 2 : 1);
      const { version } = JSON.parse(readFileSync(join(folder!, "node_modules", ...name, "package.json"), "utf8"));
      return `${name.join("/")} ${version}`;
    });
    console.log([...new Set(versions)].join(", "));
  }, 120_000);
  afterAll(() => served?.close());

  describe.each(["a port", "engine.fetch"])("over %s", (way) => {
    const settings = () => ({
      apiKey: served.engine.apiKey,
      ...(way === "a port"
        ? { baseURL: `${served.address}/v1` }
        : { baseURL: "http://anneal.invalid/v1", fetch: served.engine.fetch }),
    });
    const report = () => from.zod.z.object({ city: from.zod.z.string(), degrees: from.zod.z.number() });
    const city = () => from.zod.z.object({ city: from.zod.z.string() });

    it("openai: responses", async () => {
      const client = new from.openai.OpenAI({ ...settings(), maxRetries: 0 });
      expect((await client.responses.create({ model: "demo", input: "Hi" })).output_text).toBe(GREETING);
      const stream = client.responses.stream({ model: "demo", input: "Hi" });
      let text = "";
      stream.on("response.output_text.delta", ({ delta }: { delta: string }) => {
        text += delta;
      });
      expect((await stream.finalResponse()).output_text).toBe(GREETING);
      expect(text).toBe(GREETING);
      const format = from.openaiZod.zodTextFormat(report(), "report");
      const parsed = await client.responses.parse({ model: "demo", input: "json", text: { format } });
      expect(parsed.output_parsed).toEqual(REPORT);
      const { id } = await client.responses.create({ model: "demo", input: "Hi", background: true });
      const taken = await client.responses.stream({ response_id: id }).finalResponse();
      expect(taken.output_text).toBe(GREETING);
      const endless = await client.responses.create({ model: "demo", input: "loop", background: true });
      expect((await client.responses.cancel(endless.id)).status).toBe("cancelled");
      await client.responses.delete(id);
      await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
    });

    it("openai: chat, completions, embeddings, models", async () => {
      const client = new from.openai.OpenAI({ ...settings(), maxRetries: 0 });
      const messages = [{ role: "user", content: "Hi" }];
      const chat = await client.chat.completions.create({ model: "demo", messages });
      expect(chat.choices[0].message.content).toBe(GREETING);
      const ended = await client.chat.completions.stream({ model: "demo", messages }).finalContent();
      expect(ended).toBe(GREETING);
      const plain = await client.completions.create({ model: "demo", prompt: "[hello]", max_tokens: 8 });
      expect(plain.choices[0].text).toBe(GREETING);
      const { data } = await client.embeddings.create({ model: "vectors", input: ["a", "b"] });
      expect(data.map(({ embedding }: { embedding: number[] }) => embedding.length)).toEqual([64, 64]);
      const ids = [];
      for await (const { id } of client.models.list()) ids.push(id);
      expect(ids).toContain("demo");
    });

    it.each(["@ai-sdk/openai", "@ai-sdk/open-responses"])("ai with %s", async (name) => {
      const { generateText, streamText, generateObject, tool, stepCountIs } = from.ai;
      const { baseURL, ...rest } = settings();
      const provider =
        name === "@ai-sdk/openai"
          ? from.aiOpenai.createOpenAI({ baseURL, ...rest })
          : from.aiOpenResponses.createOpenResponses({ name: "anneal", url: `${baseURL}/responses`, ...rest });
      const common = { model: provider("demo"), maxRetries: 0 };
      expect((await generateText({ ...common, prompt: "Hi" })).text).toBe(GREETING);
      let text = "";
      for await (const delta of streamText({ ...common, prompt: "Hi" }).textStream) text += delta;
      expect(text).toBe(GREETING);
      expect((await generateObject({ ...common, prompt: "json", schema: report() })).object).toEqual(REPORT);
      const execute = async ({ city }: { city: string }) => `cold in ${city}`;
      const tools = { weather: tool({ description: "weather", inputSchema: city(), execute }) };
      const loop = { ...common, prompt: "Weather?", tools, stopWhen: stepCountIs(5) };
      const { text: answer, steps } = await generateText(loop);
      expect([answer, steps.length]).toEqual([ANSWER, 2]);
      // The other provider reads summaries alone, which are made where they are asked for.
      if (name === "@ai-sdk/open-responses") expect(steps[0].reasoningText).toBe("Which tool?");
      const streamed = streamText(loop);
      expect([await streamed.text, (await streamed.steps).length]).toEqual([ANSWER, 2]);
      const reported = await generateText({
        ...{ ...loop, prompt: "Report the weather", output: from.ai.Output.object({ schema: report() }) },
      });
      expect([reported.output, reported.steps.length]).toEqual([REPORT, 2]);
      const unstored = { ...loop, providerOptions: { openai: { store: false } } };
      expect((await generateText(unstored)).text).toBe(ANSWER);
    });

    it("ai: chat, completions and embeddings of @ai-sdk/openai", async () => {
      const provider = from.aiOpenai.createOpenAI(settings());
      expect((await from.ai.generateText({ model: provider.chat("demo"), prompt: "Hi" })).text).toBe(GREETING);
      const { embedding } = await from.ai.embed({ model: provider.embedding("vectors"), value: "a" });
      expect(embedding).toHaveLength(64);
    });

    it("@openai/agents, as it is set", async () => {
      const { Agent, run, tool, setDefaultOpenAIClient, setTracingDisabled } = from.agents;
      setTracingDisabled(true);
      setDefaultOpenAIClient(new from.openai.OpenAI({ ...settings(), maxRetries: 0 }));
      const execute = async ({ city }: { city: string }) => `cold in ${city}`;
      const weather = tool({ name: "weather", description: "weather", parameters: city(), execute });
      const agent = new Agent({ name: "A", instructions: "Help.", model: "demo", tools: [weather] });
      const first = await run(agent, "Weather?");
      expect(first.finalOutput).toBe(ANSWER);
      const streamed = await run(agent, "Weather?", { stream: true });
      for await (const _ of streamed);
      await streamed.completed;
      expect(streamed.finalOutput).toBe(ANSWER);
      const next = await run(agent, "Hi again", { previousResponseId: first.lastResponseId });
      expect(next.finalOutput).toBe(ANSWER);
      const typed = new Agent({ name: "B", model: "demo", outputType: report() });
      expect((await run(typed, "json")).finalOutput).toEqual(REPORT);
      const asked: string[] = [];
      const noted = tool({
        ...{ name: "weather", description: "weather", parameters: city() },
        execute: async ({ city }: { city: string }) => asked.push(city),
      });
      const both = new Agent({ name: "C", model: "demo", tools: [noted], outputType: report() });
      expect((await run(both, "Report the weather")).finalOutput).toEqual(REPORT);
      expect(asked).toEqual(["Oslo"]);
    });

    it.each([false, true])("LangChain.js, by responses: %s", async (useResponsesApi) => {
      const { apiKey, ...configuration } = settings();
      const common = { apiKey, configuration, maxRetries: 0 };
      const chat = new from.langchain.ChatOpenAI({ ...common, model: "demo", useResponsesApi });
      expect((await chat.invoke("Hi")).text).toBe(GREETING);
      let text = "";
      for await (const chunk of await chat.stream("Hi")) text += chunk.text;
      expect(text).toBe(GREETING);
      const execute = async ({ city }: { city: string }) => `cold in ${city}`;
      const weather = from.langchainTools.tool(execute, { name: "weather", description: "weather", schema: city() });
      const withTools = chat.bindTools([weather]);
      const asked = await withTools.invoke("Weather?");
      expect(asked.tool_calls).toMatchObject([{ name: "weather", args: { city: "Oslo" } }]);
      const told = await weather.invoke(asked.tool_calls[0]);
      expect((await withTools.invoke([{ role: "user", content: "Weather?" }, asked, told])).text).toBe(ANSWER);
      const typed = chat.withStructuredOutput(report(), { method: "jsonSchema" });
      expect(await typed.invoke("json")).toEqual(REPORT);
      const { createAgent, providerStrategy } = from.langchainAgent;
      const agent = createAgent({ model: chat, tools: [weather], responseFormat: providerStrategy(report()) });
      const done = await agent.invoke({ messages: [{ role: "user", content: "Report the weather" }] });
      expect(done.structuredResponse).toEqual(REPORT);
      expect(done.messages.map((one: { getType(): string }) => one.getType())).toEqual(["human", "ai", "tool", "ai"]);
      if (useResponsesApi) return;
      expect(await new from.langchain.OpenAI({ ...common, model: "demo", maxTokens: 8 }).invoke("[hello]")).toBe(
        GREETING,
      );
      const embeddings = new from.langchain.OpenAIEmbeddings({ ...common, model: "vectors" });
      expect(await embeddings.embedQuery("a")).toHaveLength(64);
    });

    it.each(["anneal/ai", "@ai-sdk/openai"])("Mastra with %s", async (name) => {
      const { Agent } = from.mastraAgent;
      const provider = name === "anneal/ai" ? createAnneal(served.engine) : from.aiOpenai.createOpenAI(settings());
      const execute = async () => ({ sky: "cold" });
      const tool = { id: "weather", description: "weather", inputSchema: city(), execute };
      const tools = { weather: from.mastraTools.createTool(tool) };
      const agent = new Agent({ id: "a", name: "a", instructions: "Help.", model: provider("demo"), tools });
      expect((await agent.generate("Weather?")).text).toBe(ANSWER);
      let text = "";
      for await (const delta of (await agent.stream("Weather?")).textStream) text += delta;
      expect(text).toBe(ANSWER);
      const typed = new Agent({ id: "b", name: "b", instructions: "", model: provider("demo") });
      const { object } = await typed.generate("json", { structuredOutput: { schema: report() } });
      expect(object).toEqual(REPORT);
    });
  });

  /** Runs a program of Python beside this one against a server; it prints the version of the package that it tried. */
  const python = async (name: string, { address, engine }: Served) => {
    const program = fileURLToPath(new URL(name, import.meta.url));
    const { stdout } = await promisify(execFile)(join(folder!, "python/bin/python"), [program], {
      cwd: folder,
      env: { ...process.env, OPENAI_BASE_URL: `${address}/v1`, OPENAI_API_KEY: engine.apiKey },
    });
    console.log(stdout.trim());
    return stdout;
  };

  it("openai for Python", { timeout: 60_000 }, async () => {
    expect(await python("openaiClient.py", served)).toMatch(/^openai \d+\.\d+\.\d+\n$/);
  });

  it("ART", { timeout: 120_000 }, async () => {
    const embedded = await Served.open();
    try {
      expect(await python("artClient.py", embedded)).toMatch(/^openpipe-art \d+\.\d+\.\d+$/m);
    } finally {
      await embedded.close();
    }
  });
});
