/**
 * `anneal demo`: a model fails at a task, is trained by reinforcement learning with `train` as an application would do it, and is
 * scored again on words it was never trained on.
 */
import type { EngineOptions } from "../types/options.js";
import { defineCommand } from "./command.js";
import { heldOutWords, trainingWords } from "./demoWords.js";
import { engineFlags, readEngineOptions } from "./engineFlags.js";
import { integer } from "./flags.js";
import { openEngine } from "./openHome.js";
import { rewardCurve } from "./rewardCurve.js";

const SAMPLES_PER_WORD = 4;
const GROUP_SIZE = 8;
const WORDS_PER_STEP = 12;
/** Of the held-out score: more than three standard errors. */
const MIN_RISE = 0.2;

const task = (word: string): string => `Spell "${word}" backwards, one word.`;
const reversed = (word: string): string => [...word].reverse().join("");
const reward = (word: string, reply: string): number => (reply.trim() === reversed(word) ? 1 : 0);
const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

export const demo = defineCommand({
  name: "demo",
  summary: "watch a model learn, in about a minute",
  details: `Trains the embedded model by reinforcement learning on a task it mostly fails at, and scores it on held-out words
before and after. Exits with 1 when the score rises by less than ${100 * MIN_RISE} points. Nothing is kept.`,
  flags: {
    seed: integer("N", "another run: other rollouts, other order of words (default 1)", { from: 0, to: 1e9 }),
    steps: integer("N", "training steps (default 20)", { to: 1000 }),
    device: engineFlags.device,
    precision: engineFlags.precision,
    quantize: engineFlags.quantize,
    "kv-cache": engineFlags["kv-cache"],
    threads: engineFlags.threads,
  },
  run: ({ seed = 1, steps = 20, ...values }) => learn(seed, steps, readEngineOptions(values)),
});

async function learn(seed: number, steps: number, options: EngineOptions): Promise<number> {
  const started = performance.now();
  const { train } = await import("../index.js");
  await using engine = await openEngine(options);
  const model = await engine.models.create({ project: "demo", name: "speller", base_model: "anneal/tiny" });
  const name = `${model.entity}/${model.project}/${model.name}`;

  /** Held-out words, several samples each, drawn with the same seeds before and after. */
  async function score(served: string): Promise<number> {
    const replies = await Promise.all(
      heldOutWords.map(async (word, i) => {
        const completion = await engine.chat.completions.create({
          model: served,
          messages: [{ role: "user", content: task(word) }],
          n: SAMPLES_PER_WORD,
          seed: seed * 10_000 + i * SAMPLES_PER_WORD,
          max_completion_tokens: 48,
        });
        return completion.choices.map((choice) => reward(word, choice.message.content ?? ""));
      }),
    );
    const all = replies.flat();
    return all.reduce((sum, value) => sum + value, 0) / all.length;
  }

  async function show(served: string): Promise<void> {
    for (const [i, word] of heldOutWords.slice(0, 4).entries()) {
      const completion = await engine.chat.completions.create({
        model: served,
        messages: [{ role: "user", content: task(word) }],
        seed: seed * 100 + i,
        max_completion_tokens: 48,
      });
      const reply = (completion.choices[0]?.message.content ?? "").trim();
      console.log(`  ${reward(word, reply) ? "✓" : "✗"} ${task(word)}  →  ${reply}`);
    }
  }

  console.log("The task: spell a word backwards and say nothing else. Words below are never trained on.\n");
  console.log("Before");
  await show(name);
  const before = await score(name);
  console.log(`  ${percent(before)} of ${heldOutWords.length * SAMPLES_PER_WORD} replies right\n`);

  console.log(
    `Training: ${steps} steps of ${WORDS_PER_STEP} words x ${GROUP_SIZE} rollouts; reward 1 for the bare reversed word, else 0`,
  );
  const rewards: number[] = [];
  const run = train(engine, {
    model,
    scenarios: trainingWords,
    groupsPerStep: WORDS_PER_STEP,
    groupSize: GROUP_SIZE,
    steps,
    seed,
    config: { learning_rate: 2.5e-4 },
    async rollout({ chat, scenario }) {
      return reward(scenario, await chat(task(scenario), { max_completion_tokens: 48 }));
    },
  });
  for await (const step of run) {
    const mean = step.train.reward ?? 0;
    rewards.push(mean);
    const left = ((performance.now() - started) / 1000 / rewards.length) * (steps - rewards.length);
    const filled = Math.round(mean * 30);
    progress(
      `  step ${String(step.step).padStart(String(steps).length)}/${steps}  ${"█".repeat(filled)}${"░".repeat(30 - filled)}  reward ${mean.toFixed(2)}  ${left.toFixed(0)} s left`,
    );
  }
  progress("");
  console.log(`\nReward of the training words, step 1 to ${steps}`);
  for (const line of rewardCurve(rewards)) console.log(`  ${line}`);

  console.log("\nAfter");
  await show(name);
  const after = await score(name);
  console.log(`  ${percent(after)} of ${heldOutWords.length * SAMPLES_PER_WORD} replies right\n`);

  const seconds = (performance.now() - started) / 1000;
  const rose = after >= before + MIN_RISE;
  console.log(
    `Held-out words: ${percent(before)} → ${percent(after)} in ${seconds.toFixed(0)} s${rose ? "" : `: a rise of less than ${100 * MIN_RISE} points`}`,
  );
  return rose ? 0 : 1;
}

/** Redraws one line on a terminal; prints a line each elsewhere. */
function progress(line: string): void {
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[2K${line}`);
  else if (line) console.log(line);
}
