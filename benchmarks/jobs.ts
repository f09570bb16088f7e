/**
 * How long a step of reinforcement learning takes, whole, through the engine: rollouts, then a job of one optimizer step.
 *
 *   npx tsx benchmarks/jobs.ts [--shape tiny] [--groups 2] [--completions 4] [--tokens 48] [--words 20] [--steps 10]
 *                              [--library FOLDER ...] [--threads 2] [--folder <cache>]
 *
 * `--words`: of each group's prompt. `--library`: clones that have been built, `.` this one's sources, whose engines make
 * steps by turns, each in a process of its own: what one gives back would be the other's for nothing. Milliseconds, medians
 * of the steps after the first two, and processors in use meanwhile.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import type { Engine } from "../src/index.js";
import { LETTERS, sentence, servedFolder } from "./servedShapes.js";
import { median } from "./speed/report.js";

const WARM_UP = 2;

const { values: options } = parseArgs({
  options: {
    shape: { type: "string", default: "tiny" },
    groups: { type: "string", default: "2" },
    completions: { type: "string", default: "4" },
    tokens: { type: "string", default: "48" },
    words: { type: "string", default: "20" },
    steps: { type: "string", default: "10" },
    library: { type: "string", multiple: true, default: ["."] },
    threads: { type: "string" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
    // Of the process of one library: told a step, it answers with its timings.
    one: { type: "boolean", default: false },
  },
});
const groups = Number(options.groups);
const completions = Number(options.completions);
const tokens = Number(options.tokens);
const words = Number(options.words);
const steps = Number(options.steps);

interface Timing {
  milliseconds: number;
  processors: number;
}

interface Step {
  rollouts: Timing;
  job: Timing;
}

async function timed<T>(work: () => Promise<T>): Promise<[T, Timing]> {
  const [began, before] = [performance.now(), process.cpuUsage()];
  const result = await work();
  const milliseconds = performance.now() - began;
  const { user, system } = process.cpuUsage(before);
  return [result, { milliseconds, processors: (user + system) / 1000 / milliseconds }];
}

function chats(engine: Engine, step: number) {
  return Promise.all(
    Array.from({ length: groups }, async (_, group) => {
      const messages = [{ role: "user" as const, content: sentence(step * groups + group, words) }];
      const { choices } = await engine.chat.completions.create({
        model: "local/jobs/steps",
        messages,
        n: completions,
        max_tokens: tokens,
        min_tokens: tokens,
        allowed_token_ids: LETTERS,
        logprobs: true,
        seed: step * groups + group,
      });
      const trajectories = choices.map((choice, i) => ({ messages_and_choices: [...messages, choice], reward: i }));
      return { trajectories };
    }),
  );
}

async function serve(library: string): Promise<void> {
  const entry = library === "." ? "../src/index.js" : pathToFileURL(join(resolve(library), "dist/index.js")).href;
  const { Engine: Served } = (await import(entry)) as typeof import("../src/index.js");
  const engine = await Served.open({
    home: null,
    models: [servedFolder(options.folder, options.shape)],
    contextLength: 4096,
    ...(options.threads ? { threads: Number(options.threads) } : {}),
  });
  const [base] = await engine.baseModels.list();
  const model = await engine.models.create({ project: "jobs", name: "steps", base_model: base! });
  process.on("message", async (step: number) => {
    const [trajectory_groups, rollouts] = await timed(() => chats(engine, step));
    const [{ status }, job] = await timed(async () => {
      const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups });
      return engine.trainingJobs.wait(id);
    });
    if (status !== "succeeded") throw new Error(`a job of ${library} has ${status}`);
    process.send!({ rollouts, job } satisfies Step);
  });
  process.once("disconnect", () => void engine.close());
  process.send!("ready");
}

/** What the process says next. */
async function next(child: ChildProcess): Promise<unknown> {
  const told = new AbortController();
  const end = once(child, "exit", { signal: told.signal }).then(([code]) => {
    throw new Error(`a library's process ended with ${code}`);
  });
  try {
    const [message] = await Promise.race([once(child, "message", { signal: told.signal }), end]);
    return message;
  } finally {
    told.abort();
  }
}

function middle(timings: readonly Timing[]): string {
  const milliseconds = median(timings.map((timing) => timing.milliseconds));
  const processors = median(timings.map((timing) => timing.processors));
  return `${milliseconds.toFixed(0)} (${processors.toFixed(2)})`;
}

async function compare(libraries: readonly string[]): Promise<void> {
  const served: { library: string; child: ChildProcess; steps: Step[] }[] = [];
  for (const library of libraries) {
    const given = Object.entries({ ...options, library }).flatMap(([name, value]) =>
      typeof value === "string" ? [`--${name}`, value] : [],
    );
    const child = fork(fileURLToPath(import.meta.url), [...given, "--one"]);
    await next(child);
    served.push({ library, child, steps: [] });
  }
  for (let step = 0; step < WARM_UP + steps; step++) {
    for (const { child, steps: made } of step % 2 ? served.toReversed() : served) {
      child.send(step);
      const timings = (await next(child)) as Step;
      if (step >= WARM_UP) made.push(timings);
    }
  }
  console.log("| library | rollouts, ms (processors) | job, ms (processors) |");
  console.log("|---|---|---|");
  for (const { library, child, steps: made } of served) {
    console.log(`| ${library} | ${middle(made.map((s) => s.rollouts))} | ${middle(made.map((s) => s.job))} |`);
    child.disconnect();
  }
}

await (options.one ? serve(options.library[0]!) : compare(options.library));
