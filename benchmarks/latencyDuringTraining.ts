/**
 * How long a chat waits for its next token while the same process trains:
 *
 *   npx tsx benchmarks/latencyDuringTraining.ts [--shape tiny --shape smollm2-135m] [--job rl --job sft] [--tokens 400]
 *                                               [--threads 2] [--repeats 5] [--folder <cache>]
 *
 * One streamed chat, the time between its tokens where the application reads them: 50th, 95th and 99th percentile, idle and
 * beside a job that trains all the while, the two by turns; and how many tokens the job trained meanwhile. `tiny` is the
 * embedded model; the other shapes are random weights (modelShapes.ts) behind its tokenizer.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Engine, type Model } from "../src/index.js";
import { LETTERS, sentence, servedFolder } from "./servedShapes.js";

const { values: options } = parseArgs({
  options: {
    shape: { type: "string", multiple: true, default: ["tiny"] },
    job: { type: "string", multiple: true, default: ["rl", "sft"] },
    tokens: { type: "string", default: "400" },
    repeats: { type: "string", default: "5" },
    threads: { type: "string" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
  },
});

/** Milliseconds between the tokens of one streamed chat of `tokens` tokens. */
async function gaps(engine: Engine, tokens: number): Promise<number[]> {
  const found: number[] = [];
  let last = 0;
  const stream = await engine.chat.completions.create({
    messages: [{ role: "user", content: "Tell me a story." }],
    stream: true,
    max_tokens: tokens,
    min_tokens: tokens,
    allowed_token_ids: LETTERS,
    logprobs: true,
  });
  for await (const chunk of stream) {
    if (!chunk.choices[0]?.logprobs?.content?.length) continue;
    const now = performance.now();
    if (last > 0) found.push(now - last);
    last = now;
  }
  return found;
}

/** A job that outlasts the measurement: groups of rollouts, or conversations. */
async function startJob(engine: Engine, model: Model, kind: string, folder: string): Promise<string> {
  if (kind === "sft") {
    const lines = Array.from({ length: 4000 }, (_, i) =>
      JSON.stringify({
        messages: [
          { role: "user", content: sentence(i, 12) },
          { role: "assistant", content: sentence(i + 1, 60) },
        ],
      }),
    );
    const path = join(folder, "train.jsonl");
    writeFileSync(path, lines.join("\n"));
    return (await engine.sftTrainingJobs.create({ model_id: model.id, training_data_url: path })).id;
  }
  const groups = Array.from({ length: 250 }, (_, g) => ({
    trajectories: Array.from({ length: 8 }, (_, t) => ({
      reward: t % 3,
      messages_and_choices: [
        { role: "user" as const, content: sentence(g, 20) },
        { role: "assistant" as const, content: sentence(g * 8 + t, 40) },
      ],
    })),
  }));
  const config = { allow_training_without_logprobs: true };
  return (
    await engine.trainingJobs.create({ model_id: model.id, trajectory_groups: groups, experimental_config: config })
  ).id;
}

function percentiles(values: number[]): number[] {
  const sorted = [...values].sort((a, b) => a - b);
  return [0.5, 0.95, 0.99].map((share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!);
}

const rate = ({ steps, seconds }: { steps: number; seconds: number }): string => (steps / seconds).toFixed(1);
const show = (values: number[]): string => values.map((value) => value.toFixed(2)).join(" / ");

console.log(
  "| shape | job | idle p50 / p95 / p99 ms | training p50 / p95 / p99 ms | ratio of p95 | optimizer steps/s, with the chat / alone |",
);
console.log("|---|---|---|---|---|---|");
for (const shape of options.shape) {
  const home = mkdtempSync(join(tmpdir(), "latency-"));
  const engine = await Engine.open({
    home,
    models: [servedFolder(options.folder, shape)],
    contextLength: 2048,
    speculation: "none",
    ...(options.threads ? { threads: Number(options.threads) } : {}),
  });
  const base = (await engine.baseModels.list())[0]!;
  const tokens = Number(options.tokens);
  await gaps(engine, Math.min(tokens, 50));
  for (const kind of options.job) {
    const idle: number[] = [];
    const training: number[] = [];
    const beside = { steps: 0, seconds: 0 };
    const alone = { steps: 0, seconds: 0 };
    for (let repeat = 0; repeat < Number(options.repeats); repeat++) {
      idle.push(...(await gaps(engine, tokens)));
      const model = await engine.models.create({ project: "latency", name: `${kind}-${repeat}`, base_model: base });
      const id = await startJob(engine, model, kind, home);
      let steps = 0;
      const followed = (async () => {
        for await (const event of engine.trainingJobs.events(id)) if (event.type === "gradient_step") steps++;
      })();
      while (steps === 0) await setTimeout(20);
      const [first, began] = [steps, performance.now()];
      training.push(...(await gaps(engine, tokens)));
      beside.steps += steps - first;
      beside.seconds += (performance.now() - began) / 1000;
      const [second, paused] = [steps, performance.now()];
      await setTimeout(1000);
      alone.steps += steps - second;
      alone.seconds += (performance.now() - paused) / 1000;
      await engine.trainingJobs.cancel(id);
      await followed;
      await engine.models.delete(model.id);
    }
    const [before, during] = [percentiles(idle), percentiles(training)];
    const ratio = (during[1]! / before[1]!).toFixed(2);
    console.log(
      `| ${shape} | ${kind} | ${show(before)} | ${show(during)} | ${ratio} | ${rate(beside)} / ${rate(alone)} |`,
    );
  }
  await engine.close();
  rmSync(home, { recursive: true, force: true });
}
