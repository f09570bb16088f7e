import { type ChildProcess, spawn } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import {
  ClosedError,
  HomeLockedError,
  InsufficientMemoryError,
  ModelFileError,
  ValidationError,
} from "../../src/errors.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "engine-test-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const entry = pathToFileURL(fileURLToPath(new URL("../../src/index.ts", import.meta.url))).href;

/** Runs a module of its own process, in which `Engine` and `home` are at hand. */
async function run(body: string, onOutput: (text: string, child: ChildProcess) => void = () => undefined) {
  const source = `import { Engine } from ${JSON.stringify(entry)};\nconst home = ${JSON.stringify(home)};\n${body}`;
  const file = join(home, "..", `engine-test-${Date.now()}-${Math.random()}.mts`);
  writeFileSync(file, source);
  const tsx = fileURLToPath(import.meta.resolve("tsx"));
  const child = spawn(process.execPath, ["--import", pathToFileURL(tsx).href, file], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  let errors = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
    onOutput(text, child);
  });
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) =>
    child.on("close", (...end) => resolve(end)),
  );
  rmSync(file);
  return { code, signal, text, errors, pid: child.pid };
}

describe("opening", () => {
  it("a home again gives the same engine, until it was closed as often", async () => {
    const first = await Engine.open({ home });
    symlinkSync(home, `${home}-link`);
    const [second, third] = await Promise.all([
      Engine.open({ home: `${home}-link` }),
      Engine.open({ home: `${home}/.` }),
    ]);
    rmSync(`${home}-link`);
    expect(second).toBe(first);
    expect(third).toBe(first);
    await first.close();
    await second.close();
    expect(await first.baseModels.list()).toEqual(["anneal/tiny"]);
    expect(existsSync(join(home, "lock.json"))).toBe(true);
    await third.close();
    expect(existsSync(join(home, "lock.json"))).toBe(false);
    const fresh = await Engine.open({ home });
    expect(fresh).not.toBe(first);
    const closing = fresh.close();
    const next = await Engine.open({ home });
    await closing;
    expect(next).not.toBe(fresh);
    await next.close();
  });

  it("keeps what was made for the next opening", async () => {
    const first = await Engine.open({ home });
    const model = await first.models.create({ project: "p", name: "n", base_model: "anneal/tiny" });
    const key = first.apiKey;
    await first.close();
    await using second = await Engine.open({ home });
    expect(await second.models.retrieve(model.id)).toEqual(model);
    expect(second.apiKey).toBe(key);
  });

  it("without a home keeps nothing", async () => {
    const [a, b] = await Promise.all([Engine.open(), Engine.open({})]);
    expect(a).not.toBe(b);
    expect(a.home).toBeNull();
    const folder = a.core.store.home;
    await a.models.create({ project: "p", name: "n", base_model: "anneal/tiny" });
    expect(await b.models.list()).toMatchObject({ data: [{ id: "anneal/tiny" }] });
    await a.close();
    await b.close();
    expect(existsSync(folder)).toBe(false);
  });

  it("names options that do not exist or cannot be", async () => {
    const optimizer = { rl: { beta2: 1 }, sft: { decay: 0 } };
    const failure = Engine.open({ tread: 2, toolParser: "xml", models: [], optimizer } as object);
    await expect(failure).rejects.toBeInstanceOf(ValidationError);
    const { issues } = (await failure.catch((error) => error)) as ValidationError;
    expect(issues.map(({ loc }) => loc.join(".")).sort()).toEqual([
      "options.models",
      "options.optimizer.rl.beta2",
      "options.optimizer.sft.decay",
      "options.toolParser",
      "options.tread",
    ]);
  });

  it.each([
    { maxSequences: 1e9 },
    { tokenBudget: 1 },
    { tokenBudget: 1e9 },
    { threads: 1e9 },
    { contextLength: 1 },
    { maxQueue: 1e12 },
    { adapter: { rank: 1e9 } },
    { adapter: { alpha: 1e7 } },
    { optimizer: { rl: { eps: 2 } } },
    { kvCache: "int4" as "int8" },
    { models: [{ path: "x", kvCache: true as unknown as "int8" }] },
    { home: "\0" },
    { apiKey: "two words" },
    { apiKey: "ключ" },
    { dataRoots: ["/tmp\0"] },
    { models: ["\0"] },
  ])("names an option that is out of bounds: %j", async (options) => {
    const failure = await Engine.open(options).catch((error) => error);
    expect(failure).toBeInstanceOf(ValidationError);
    expect(failure.issues).toHaveLength(1);
    expect(failure.issues[0].loc.slice(0, 2)).toEqual(["options", Object.keys(options)[0]]);
  });

  it("names a model whose id another has", async () => {
    const path = fileURLToPath(new URL("../../models/tiny", import.meta.url));
    const twice = Engine.open({ models: [path, { id: "other", path }, path] });
    await expect(twice).rejects.toMatchObject({ status: 422, issues: [{ loc: ["options", "models", "2"] }] });
  });

  it("fails for what it cannot load, and then can be tried again", async () => {
    await expect(Engine.open({ home, models: ["/nowhere"] })).rejects.toBeInstanceOf(ModelFileError);
    await expect(Engine.open({ home, models: [home] })).rejects.toThrow(/config\.json/);
    const small = await Engine.open({ home, memoryLimit: 1e6 }).catch((error) => error);
    expect(small).toBeInstanceOf(InsufficientMemoryError);
    expect(small).toMatchObject({ available: 1e6, status: 503 });
    await (await Engine.open({ home })).close();
  });

  it("names the file of a model folder that is at fault", async () => {
    const complaint = async (file: string, content: string) => {
      const folder = join(home, "model");
      rmSync(folder, { recursive: true, force: true });
      cpSync(fileURLToPath(new URL("../../models/tiny", import.meta.url)), folder, { recursive: true });
      writeFileSync(join(folder, file), content);
      const error = await Engine.open({ models: [folder] }).catch((error: unknown) => error);
      expect(error).toBeInstanceOf(ModelFileError);
      return (error as ModelFileError).message.replace(folder, "");
    };
    expect(await complaint("tokenizer.json", "{")).toMatch(/^\/tokenizer.json: is not JSON/);
    expect(await complaint("chat_template.jinja", "{% if x %}")).toMatch(
      /^\/chat_template.jinja: chat template, line 1/,
    );
    const noPenalty = JSON.stringify({ repetition_penalty: 0 });
    expect(await complaint("generation_config.json", noPenalty)).toContain(
      "/generation_config.json: repetition_penalty",
    );
  });

  it("takes the key and the entity of the owner", async () => {
    await using engine = await Engine.open({ apiKey: "mine", entity: "me" });
    expect(engine.authenticate("mine")?.caller).toEqual({ entity: "me", owner: true });
    expect(engine.authenticate("other")).toBeNull();
    const model = await engine.models.create({ project: "p", name: "n", base_model: "anneal/tiny" });
    expect(model.entity).toBe("me");
  });

  it("is told on diagnostics channels and to the logger", async () => {
    const seen: string[] = [];
    const note = (_message: unknown, name: string | symbol) => seen.push(String(name));
    const names = ["anneal:engine:open", "anneal:engine:close", "anneal:model:load"];
    for (const name of names) subscribe(name, note);
    const logged: string[] = [];
    const say = (message: string) => logged.push(message);
    const engine = await Engine.open({ logger: { debug: say, info: say, warn: say, error: say } });
    await engine.close();
    for (const name of names) unsubscribe(name, note);
    expect(seen).toEqual(["anneal:model:load", "anneal:engine:open", "anneal:engine:close"]);
    expect(logged).toEqual(["model loaded", "engine opened", "engine closed"]);
  });

  it("is not disturbed by a logger that throws", async () => {
    const fail = (message: string) => {
      throw new Error(message);
    };
    const failLater = async (message: string) => fail(message);
    const engine = await Engine.open({ logger: { debug: fail, info: fail, warn: failLater, error: fail } });
    const { id } = await engine.models.create({ project: "p", name: "a", base_model: "anneal/tiny" });
    const job = await engine.trainingJobs.create({ model_id: id, trajectory_groups: [] });
    expect((await engine.trainingJobs.wait(job.id)).status).toBe("succeeded");
    engine.logger.warn("told");
    await engine.close();
  });
});

describe("processes", () => {
  it("find a home in use by another, with its address, and free once that was killed", async () => {
    const tries: Promise<unknown>[] = [];
    const end = await run(
      `const engine = await Engine.open({ home });
       engine.setAddress("http://127.0.0.1:1");
       await engine.models.create({ project: "p", name: "kept", base_model: "anneal/tiny" });
       console.log("ready");
       setInterval(() => {}, 1000);`,
      (text, child) => {
        if (tries.length > 0 || !text.includes("ready")) return;
        const attempt = Engine.open({ home }).catch((error: unknown) => error);
        tries.push(attempt.finally(() => child.kill("SIGKILL")));
      },
    );
    expect(end.signal).toBe("SIGKILL");
    const error = await tries[0];
    expect(error).toBeInstanceOf(HomeLockedError);
    expect(error).toMatchObject({ address: "http://127.0.0.1:1", pid: end.pid, code: "home_locked", status: 409 });
    await using engine = await Engine.open({ home });
    expect((await engine.models.list()).data.map(({ id }) => id)).toContain("wandb-artifact:///local/p/kept");
  });

  it("end by themselves while an engine is open and idle", async () => {
    const { code, text } = await run(`await Engine.open({ home }); console.log("open");`);
    expect([code, text]).toEqual([0, "open\n"]);
    await (await Engine.open({ home })).close();
  });

  it("write nothing by themselves", async () => {
    const { text, errors } = await run(`
      await using engine = await Engine.open({ home });
      await engine.chat.completions.create({ messages: [{ role: "user", content: "hi" }], max_tokens: 3 });
    `);
    expect([text, errors.replace(/^npm warn.*$/gm, "").trim()]).toEqual(["", ""]);
  });
});

it("closing ends what is under way with an error", async () => {
  const engine = await Engine.open({});
  const messages = [{ role: "user", content: "hi" }];
  const reply = engine.chat.completions.create({ messages, ignore_eos: true });
  const stream = await engine.chat.completions.create({ messages, ignore_eos: true, stream: true });
  const iterator = stream[Symbol.asyncIterator]();
  await iterator.next();
  const outcome = reply.catch((error: unknown) => error);
  await engine.close();
  expect(await outcome).toMatchObject({ code: "closed" });
  await expect(
    (async () => {
      for (;;) if ((await iterator.next()).done) return;
    })(),
  ).rejects.toMatchObject({ code: "closed" });
  await expect(engine.health()).rejects.toMatchObject({ status: 503 });
  await expect(engine.models.list()).rejects.toMatchObject({ code: "closed" });
  await expect(engine.tokens.tokenize({ prompt: "a" })).rejects.toMatchObject({ code: "closed" });
  await expect(engine.tokens.detokenize({ tokens: [1] })).rejects.toMatchObject({ code: "closed" });
  await expect(engine.baseModels.list()).rejects.toMatchObject({ code: "closed" });
  await expect(engine.trainingSessions.list()).rejects.toMatchObject({ code: "closed" });
  await expect(engine.chat.completions.create({ messages })).rejects.toMatchObject({ code: "closed" });
  const models = { project: "p", name: "n", base_model: "anneal/tiny" };
  await expect(engine.models.create(models)).rejects.toMatchObject({ code: "closed" });
  await engine.close();
});

it("closing ends calls that were about to write with the same error", async () => {
  const engine = await Engine.open();
  const messages = [{ role: "user" as const, content: "hi" }];
  const model = await engine.models.create({ project: "p", name: "m", base_model: "anneal/tiny" });
  const trajectory_groups = [{ trajectories: [0, 1].map((reward) => ({ messages_and_choices: messages, reward })) }];
  const data = [{ messages: [...messages, { role: "assistant" as const, content: "a" }] }];
  const calls = Array.from({ length: 50 }, (_, i) => [
    engine.sftTrainingJobs.create({ model_id: model.id, data }),
    engine.trainingJobs.create({ model_id: model.id, trajectory_groups }),
    engine.models.log(model.id, { split: "val", trajectory_groups }),
    engine.models.create({ project: "p", name: `m${i}`, base_model: "anneal/tiny" }),
  ]);
  const outcomes = Promise.allSettled(calls.flat());
  await setTimeout(20);
  await engine.close();
  const reasons = (await outcomes).flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
  expect(reasons.length).toBeGreaterThan(0);
  for (const reason of reasons) expect(reason).toMatchObject({ code: "closed" });
});

it("closing waits for what is being written, so that the next opening finds nothing of it and takes nothing from it", async () => {
  let engine = await Engine.open({ home });
  const names = Array.from({ length: 6 }, (_, i) => `m${i}`);
  for (let round = 0; round < 6; round++) {
    const made = names.map((name) => engine.models.create({ project: `p${round}`, name, base_model: "anneal/tiny" }));
    const settled = Promise.allSettled(made);
    await setTimeout(3 * round);
    await engine.close();
    engine = await Engine.open({ home });
    for (const one of await settled) {
      if (one.status === "rejected") expect(one.reason).toBeInstanceOf(ClosedError);
    }
  }
  await engine.close();
  const temporary = join(home, "temporary");
  expect(existsSync(temporary) ? readdirSync(temporary) : []).toEqual([]);
});
