/**
 * What training teaches the embedded model, as Markdown:
 *
 *   npx tsx benchmarks/learning.ts [--part rl --part sft --part mismatch] [--seeds 3] [--steps 8] [--threads 2]
 *
 * - rl: three tasks; held-out score before and after reinforcement learning, per seed.
 * - sft: a new skill, and what the old skills score before and after.
 * - mismatch: a sampler that reports wrong logprobs, with and without truncated importance sampling.
 *
 * Held-out items are on the other side of the split that the model was made with. A score is the mean over items of the mean of
 * their attempts at temperature 1; its interval is over items. A gain's interval is over seeds.
 */
import { parseArgs } from "node:util";
import { Engine, gather, type Model, train } from "../src/index.js";
import type { ExperimentalConfig, SftConfig } from "../src/types/training.js";
import type { TrajectoryGroup } from "../src/types/trajectories.js";
import { percentInterval } from "./intervals.js";
import { type LearningTask, learningTasks, type Scenario } from "./learningTasks.js";
import { newSkill, oldSkills, scoreQuestions, skillConversations } from "./skillScores.js";

const { values: options } = parseArgs({
  options: {
    part: { type: "string", multiple: true, default: ["rl", "sft", "mismatch"] },
    seeds: { type: "string", default: "3" },
    steps: { type: "string", default: "8" },
    threads: { type: "string", default: "2" },
  },
});
const seeds = Array.from({ length: Number(options.seeds) }, (_, i) => i + 1);
const steps = Number(options.steps);
const groupsPerStep = 12;
const groupSize = 8;
const heldOutItems = 40;
const attempts = 4;
const learningRate = 1e-3;

const engine = await Engine.open({ threads: Number(options.threads), toolParser: "hermes" });

const newModel = (name: string): Promise<Model> =>
  engine.models.create({ project: "benchmark", name, base_model: "anneal/tiny" });

/** Per held-out item the mean reward of its attempts with the model's latest step. */
async function heldOutScores(task: LearningTask, model: Model, seed: number): Promise<number[]> {
  const groups = await gather(engine, {
    model,
    scenarios: task.scenarios(heldOutItems, true),
    rollout: task.rollout,
    groupSize: attempts,
    seed: 900 + seed,
  });
  return groups.map((group) => meanReward([group]));
}

function meanReward(groups: readonly TrajectoryGroup[]): number {
  const rewards = groups.flatMap((group) => group.trajectories.map(({ reward }) => reward));
  return rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

async function reinforcement(): Promise<void> {
  console.log(`\n## Reinforcement learning, held-out score in percent (95 % intervals)\n
${steps} steps of ${groupsPerStep} scenarios x ${groupSize} rollouts, learning rate ${learningRate}; ${heldOutItems} held-out scenarios x ${attempts} attempts.\n
| task | kind | seed | before | after | gain | seconds |
|---|---|---|---|---|---|---|`);
  for (const task of learningTasks) {
    const gains: number[] = [];
    for (const seed of seeds) {
      const model = await newModel(`${task.kind.split(" ")[0]}-${seed}`);
      const began = performance.now();
      const before = await heldOutScores(task, model, seed);
      const run = train(engine, {
        model,
        scenarios: task.scenarios(200, false),
        rollout: task.rollout,
        groupSize,
        groupsPerStep,
        steps,
        seed,
        config: { learning_rate: learningRate },
      });
      for await (const step of run) {
        process.stderr.write(
          `${task.kind}, seed ${seed}, step ${step.step}: reward ${step.train.reward?.toFixed(3)}\n`,
        );
      }
      const after = await heldOutScores(task, model, seed);
      const seconds = ((performance.now() - began) / 1000).toFixed(0);
      gains.push(mean(after) - mean(before));
      const gain = (100 * gains.at(-1)!).toFixed(1);
      console.log(
        `| ${task.name} | ${task.kind} | ${seed} | ${percentInterval(before)} | ${percentInterval(after)} | ${gain} | ${seconds} |`,
      );
    }
    if (gains.length > 1) console.log(`| ${task.name} | ${task.kind} | all | | | ${percentInterval(gains)} | |`);
  }
}

async function supervised(): Promise<void> {
  const items = 200;
  console.log(`\n## Supervised fine-tuning of a new skill, score in percent (95 % intervals over questions)\n
The skill: ${newSkill.example} 480 conversations of it and 480 of the old skills (training side of the split), batches of 8, learning rate
falling in a line from 3e-3 to 0; ${items} held-out questions of the new skill and ${items} of the old ones, one greedy answer each.\n
| seed | new skill before | after | old skills before | after |
|---|---|---|---|---|`);
  for (const seed of seeds) {
    const model = await newModel(`sft-${seed}`);
    const chat = (content: string) => greedyReply(model, content);
    const before = [await scoreQuestions([newSkill], items, chat), await scoreQuestions(oldSkills, items, chat)];
    const lines = skillConversations(960, seed).map((messages) => `${JSON.stringify({ messages })}\n`);
    const { url } = await engine.artifacts.create({
      project: "benchmark",
      name: `skill-${seed}`,
      files: { "train.jsonl": lines.join("") },
    });
    const config: SftConfig = { batch_size: 8, learning_rate: 3e-3, learning_rate_schedule: "linear" };
    const job = await engine.sftTrainingJobs.create({ model_id: model.id, training_data_url: url, config });
    await engine.trainingJobs.wait(job.id);
    const after = [await scoreQuestions([newSkill], items, chat), await scoreQuestions(oldSkills, items, chat)];
    const cells = [before[0]!, after[0]!, before[1]!, after[1]!].map(percentInterval);
    console.log(`| ${seed} | ${cells.join(" | ")} |`);
  }
}

async function greedyReply(model: Model, content: string): Promise<string> {
  const completion = await engine.chat.completions.create({
    model: `${model.entity}/${model.project}/${model.name}`,
    messages: [{ role: "user", content }],
    temperature: 0,
    max_completion_tokens: 64,
  });
  return completion.choices[0]!.message.content ?? "";
}

/** Adds normal noise to what the sampler says of its tokens. */
function perturb(groups: readonly TrajectoryGroup[], deviation: number, seed: number): void {
  let state = seed;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  for (const { trajectories } of groups) {
    for (const { messages_and_choices: items } of trajectories) {
      for (const item of items) {
        if (!("message" in item)) continue;
        for (const entry of item.logprobs?.content ?? [])
          entry.logprob = Math.min(0, entry.logprob + deviation * normal());
      }
    }
  }
}

interface Sampler {
  name: string;
  /** Standard deviation of the error of reported logprobs, in nats. */
  deviation: number;
  config: ExperimentalConfig;
}

/** Clipping is opened wide, so that only the truncation limits a ratio. */
const open: ExperimentalConfig = { learning_rate: learningRate, epsilon_high: 1e6 };
const samplers: Sampler[] = [
  { name: "exact logprobs", deviation: 0, config: open },
  { name: "perturbed", deviation: 2, config: open },
  { name: "perturbed, clipped to [0, 5] (the default)", deviation: 2, config: { ...open, epsilon_high: 4 } },
  { name: "perturbed, truncated at 1", deviation: 2, config: { ...open, truncated_importance_sampling: 1 } },
  {
    name: "perturbed, logprobs calculated first, truncated at 1",
    deviation: 2,
    config: { ...open, precalculate_logprobs: true, truncated_importance_sampling: 1 },
  },
];

async function mismatched(): Promise<void> {
  const task = learningTasks[1]!;
  console.log(`\n## A sampler that reports wrong logprobs\n
Task: ${task.name} The error of a reported logprob is normal with deviation 2 nats. ${steps} steps as above; scores in percent; ratio and
gradient norm are means over the steps.\n
| sampler | seed | held-out before | after | mean ratio | largest ratio | gradient norm |
|---|---|---|---|---|---|---|`);
  for (const [i, { name, deviation, config }] of samplers.entries()) {
    const finals: number[] = [];
    for (const seed of seeds) {
      const model = await newModel(`mismatch-${i}-${seed}`);
      const before = await heldOutScores(task, model, seed);
      const scenarios = task.scenarios(200, false);
      const seen: Record<string, number>[] = [];
      for (let step = 0; step < steps; step++) {
        const chosen = Array.from({ length: groupsPerStep }, (_, g): Scenario => {
          return scenarios[(seed * 37 + step * groupsPerStep + g) % scenarios.length]!;
        });
        const groups = await gather(engine, {
          model,
          scenarios: chosen,
          rollout: task.rollout,
          groupSize,
          seed: seed * 1000 + step,
        });
        perturb(groups, deviation, seed * 1000 + step);
        const job = await engine.trainingJobs.create({
          model_id: model.id,
          trajectory_groups: groups,
          experimental_config: config,
        });
        for await (const event of engine.trainingJobs.events(job.id)) {
          if (event.type === "gradient_step") seen.push(event.data as Record<string, number>);
        }
        await engine.trainingJobs.wait(job.id);
      }
      const after = await heldOutScores(task, model, seed);
      finals.push(mean(after));
      const of = (key: string) => seen.map((data) => data[key] ?? Number.NaN);
      const cells = [
        mean(of("ratio_mean")).toFixed(2),
        Math.max(...of("ratio_max")).toFixed(1),
        mean(of("grad_norm")).toFixed(2),
      ];
      console.log(
        `| ${name} | ${seed} | ${percentInterval(before)} | ${percentInterval(after)} | ${cells.join(" | ")} |`,
      );
    }
    if (finals.length > 1) console.log(`| ${name} | all | | ${percentInterval(finals)} | | | |`);
  }
}

const parts: Record<string, () => Promise<void>> = { rl: reinforcement, sft: supervised, mismatch: mismatched };
try {
  for (const part of options.part) {
    const run = parts[part];
    if (!run) throw new RangeError(`--part: one of ${Object.keys(parts).join(", ")}, not "${part}"`);
    await run();
  }
} finally {
  await engine.close();
}
