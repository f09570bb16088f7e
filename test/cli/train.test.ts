import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Engine } from "../../src/anneal.js";
import { runCommand } from "../../src/cli/command.js";
import { UsageError } from "../../src/cli/flags.js";
import { train as trainCommand } from "../../src/cli/train.js";
import { command, finish, killAll, start } from "./command.js";
import { printed } from "./printed.js";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cli-train-"));
});
afterAll(() => {
  killAll();
  rmSync(folder, { recursive: true, force: true });
});

const file = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};
const FAILING = `export default {
  scenarios: [1], groupSize: 2, steps: 1, rollout: async () => { throw new Error("no luck"); },
};`;
const home = () => join(folder, "home");
const train = (...args: string[]) => printed(() => runCommand(trainCommand, [...args, "--home", home()]));

describe("anneal train", () => {
  it("teaches the conversations of a file, a checkpoint each pass, and names a line that cannot be used", async () => {
    const lines = ["cat", "dog", "bird", "fish", "cow", "pig", "hen", "ant"].map((word) =>
      JSON.stringify({
        messages: [
          { role: "user", content: `Say ${word}.` },
          { role: "assistant", content: `No, ${word}!` },
        ],
      }),
    );
    const data = file("data.jsonl", [...lines, ...lines, ...lines].join("\n"));
    const taught = await train("p/taught", data, "--epochs", "2", "--learning-rate", "1e-3");
    expect(taught.code).toBe(0);
    const [first, second] = [...taught.out.matchAll(/pass \d of 2: 12 batches, mean loss ([\d.]+)/g)].map(
      (m) => +m[1]!,
    );
    expect(second).toBeLessThan(first!);
    expect(taught.out).toContain("Served as local/p/taught:step2");
    await using engine = await Engine.open({ home: home() });
    const messages = [{ role: "user", content: "Say dog." }];
    const reply = await engine.chat.completions.create({ model: "local/p/taught", messages, temperature: 0 });
    expect(reply.choices[0]!.message.content).toBe("No, dog!");

    // The same data as one array.
    const array = file(
      "array.json",
      JSON.stringify(
        lines.map((line) => JSON.parse(line)),
        null,
        2,
      ),
    );
    expect((await train("p/taught", array)).out).toContain("pass 1 of 1: 4 batches");

    await expect(train("p/empty", file("empty.jsonl", "\n"))).rejects.toThrow(/^\S*empty.jsonl: holds no conversation/);
    const broken = file("broken.jsonl", `${lines[0]}\nno line\n`);
    await expect(train("p/broken", broken)).rejects.toThrow(`${broken}, line 2: no valid JSON`);
  });

  it("leaves no model behind whose first job failed, and one that was there as it was", async () => {
    const messages = [
      { role: "user", content: "x", tool_calls: [] },
      { role: "assistant", content: "y" },
    ];
    const data = file("fine.jsonl", JSON.stringify({ messages }));
    const failing = ["--learning-rate", "0.1", "--batch-size", "1"];
    const failed = train("p/failed", file("failing.mjs", FAILING), "--learning-rate", "0.1");
    await expect(failed).rejects.toThrow(/no luck/);
    expect((await train("p/kept", data, ...failing)).code).toBe(0);
    await expect(train("p/kept", file("failing.mjs", FAILING))).rejects.toThrow(/no luck/);
    await using engine = await Engine.open({ home: home() });
    const names = (await engine.models.list()).data.map(({ root }) => root);
    expect(names).toContain("local/p/kept:step1");
    expect(names.filter((name) => name.includes("failed") || name.includes("broken"))).toEqual([]);
  });

  it("tells of conversations that are too long", async () => {
    const messages = [
      { role: "user", content: "x" },
      { role: "assistant", content: "word ".repeat(3000) },
    ];
    const complained = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const { out } = await train("p/long", file("long.jsonl", JSON.stringify({ messages })));
    const told = complained.mock.calls.map(([line]) => line).join("");
    complained.mockRestore();
    expect(out).toContain("pass 1 of 1: 0 batches\n");
    expect(told).toContain("1 conversations longer than 2048 tokens were dropped");
  });

  it("reinforces what a module rewards", async () => {
    const module = file(
      "speller.mjs",
      `export default {
        scenarios: ["planet", "garden"], validation: ["window"], groupSize: 4, steps: 5,
        rollout: async ({ chat, scenario }) => (await chat("Spell " + scenario)).length > 5 ? 1 : 0,
      };`,
    );
    const reinforced = await train("p/reinforced", module, "--steps", "2");
    expect(reinforced.code).toBe(0);
    expect(reinforced.out).toMatch(/^step 1: reward [\d.]+ at step 0, validation [\d.]+, [\d.]+ s\nstep 2: /);
    expect(reinforced.out).toContain("Served as local/p/reinforced:step2");
  });

  it("makes all passes one job where a schedule or what is held out is theirs together", async () => {
    const lines = Array.from({ length: 8 }, (_, i) =>
      JSON.stringify({
        messages: [
          { role: "user", content: `Say ${i}.` },
          { role: "assistant", content: `No, ${i}!` },
        ],
      }),
    );
    const settings = ["--epochs", "3", "--schedule", "linear", "--warmup", "0.4", "--shuffle", "--turns", "last"];
    const heldOut = ["--validation", "0.25", "--patience", "2", "--keep-best"];
    const { out } = await train("p/scheduled", file("few.jsonl", lines.join("\n")), ...settings, ...heldOut);
    expect(out).toMatch(/^3 passes: 9 batches, mean loss [\d.]+, validation loss [\d.]+ [\d.]+ [\d.]+\n/);
    expect(out).toContain("Served as local/p/scheduled:step1");
    const bonus = file(
      "bonus.mjs",
      `export default { scenarios: [1], groupSize: 4, steps: 1, rollout: async ({ chat }) => (await chat("Hello")).length };`,
    );
    expect((await train("p/bonus", bonus, "--entropy", "0.01", "--schedule", "cosine")).out).toContain(
      "step 1: reward",
    );
    await using engine = await Engine.open({ home: home() });
    const jobs = (await engine.trainingJobs.list()).data;
    const rates = async (name: string) => {
      const model = (await engine.models.list()).data.find(({ id }) => id.endsWith(name))!;
      const job = jobs.find((one) => one.model_id === model.model_id)!;
      const events = (await engine.trainingJobs.events(job.id, { limit: 100 })).data;
      return events.flatMap(({ type, data }) => (type === "gradient_step" ? [data] : []));
    };
    const steps = await rates("p/scheduled");
    expect(steps.at(-1)!.learning_rate).toBeLessThan(steps[2]!.learning_rate!);
    expect(steps[0]!.learning_rate).toBeLessThan(steps[1]!.learning_rate!);
  });

  it("leaves a job where it stands when it is terminated, and cancels it when it is interrupted", {
    timeout: 120_000,
  }, async () => {
    const messages = [
      { role: "user", content: "Say x." },
      { role: "assistant", content: "No, x!" },
    ];
    const line = JSON.stringify({ messages });
    const data = file("long-lasting.jsonl", Array.from({ length: 3000 }, () => line).join("\n"));
    const ended = async (signal: NodeJS.Signals) => {
      const own = join(folder, signal);
      const child = start(["train", "p/cut", data, "--home", own]);
      const exit = finish(child);
      const hasStep = () => {
        try {
          return readdirSync(join(own, "jobs"), { recursive: true }).some((name) => /state-\d/.test(String(name)));
        } catch {
          return false;
        }
      };
      while (!hasStep()) await new Promise((resolve) => setTimeout(resolve, 50));
      child.kill(signal);
      const { code, err } = await exit;
      await using engine = await Engine.open({ home: own });
      const [job] = (await engine.trainingJobs.list()).data;
      const models = (await engine.models.list()).data.length;
      if (job!.status === "running") await engine.trainingJobs.cancel(job!.id);
      return { code, err, status: job!.status === "queued" ? "running" : job!.status, models };
    };
    expect(await ended("SIGTERM")).toEqual({
      code: 143,
      err: expect.stringMatching(/^stopped; job [\w-]+ goes on when the home is opened again\n$/),
      status: "running",
      models: 2,
    });
    expect(await ended("SIGINT")).toEqual({
      code: 130,
      err: "cancelled; checkpoints that were made stay\n",
      status: "cancelled",
      models: 1,
    });
  });

  it("says what it needs", async () => {
    const empty = file("empty.mjs", "export const steps = 1;");
    const partial = file("partial.mjs", "export default { scenarios: [1], groupSize: 2 };");
    const called = file("called.mjs", "export default () => ({ scenarios: [1] });");
    const missing = join(folder, "missing.jsonl");
    const data = file("data.csv", "");
    const wrong = file("wrong.mjs", "\nconst a = ;");
    const failing = file("failing.mjs", "\nnull.x;");
    const astray = file("astray.mjs", 'import "./nowhere.mjs";');
    const refused: [args: string[], message: string][] = [
      [["p/m"], "train takes PROJECT/NAME and FILE"],
      [["p", empty], 'a model is named PROJECT/NAME, not "p"'],
      [["p/m", missing], `there is no file ${missing}`],
      [["p/m", folder], `${folder} is a folder, not a file`],
      [["p/m", empty], `${empty} has no default export: it should be { scenarios, rollout, groupSize, steps, ... }`],
      [
        ["p/m", called],
        `the default export of ${called} is a function: it should be { scenarios, rollout, groupSize, steps, ... }`,
      ],
      [["p/m", partial], `the default export of ${partial} has no \`rollout\``],
      [
        ["p/m", data],
        `${data} is neither a .jsonl, .ndjson or .json file of conversations nor a module (.js, .mjs, .cjs, .ts, .mts, .cts)`,
      ],
      [
        ["p/m", data, "--epochs", "2"],
        `${data} is neither a .jsonl, .ndjson or .json file of conversations nor a module (.js, .mjs, .cjs, .ts, .mts, .cts)`,
      ],
      [["p/m", partial, "--epochs", "2"], "--epochs has no meaning for a module"],
      [["p/m", partial, "--shuffle"], "--shuffle has no meaning for a module"],
      [["p/m", file("one.jsonl", "{}"), "--entropy", "1"], "--entropy has no meaning for a file of conversations"],
      [["p/m", file("one.jsonl", "{}"), "--keep-best"], "--keep-best needs --validation above 0"],
      [["p/m", partial, "--validation", "1"], '--validation takes a number from 0, below 1, not "1"'],
    ];
    for (const [args, message] of refused) {
      await expect(train(...args)).rejects.toMatchObject({ constructor: UsageError, message });
    }
    // Syntax errors and TypeScript are Node's own to find, which tests run without.
    const node = (name: string) => command(["train", "p/m", name, "--home", home()]);
    const said = await Promise.all([wrong, failing, astray].map(node));
    expect(said.map(({ code, err }) => [code, err.split("\n").length])).toEqual([
      [2, 3],
      [2, 3],
      [2, 3],
    ]);
    expect(said[0]!.err).toMatch(/wrong\.mjs cannot be loaded: \w*Error: .*\s+.*wrong\.mjs:2/);
    expect(said[1]!.err).toMatch(/failing\.mjs cannot be loaded: TypeError: .*\s+.*at \S*failing\.mjs:2/);
    expect(said[2]!.err).toMatch(/astray\.mjs cannot be loaded: Error.*nowhere\.mjs/);
  });
});
