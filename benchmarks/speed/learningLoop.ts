/** The demo's task learnt by anneal as a program that is measured: `learningLoop.ts THREADS`; each line is one whole run. */
import { trainingWords } from "../../src/cli/demoWords.js";
import { Engine, train } from "../../src/index.js";
import { serve } from "./program.js";
import { heldOut, type LoopWork, rewardOf, taskOf } from "./task.js";

const [threads] = process.argv.slice(2);
const engine = await Engine.open({ threads: Number(threads) });
let runs = 0;

async function score(model: string): Promise<number> {
  const replies = await Promise.all(
    heldOut.map(async ({ word }, i) => {
      const { choices } = await engine.chat.completions.create({
        model,
        messages: [{ role: "user", content: taskOf(word) }],
        n: 4,
        seed: 4 * i,
        max_completion_tokens: 48,
      });
      return choices.reduce((sum, { message }) => sum + rewardOf(word, message.content ?? ""), 0) / 4;
    }),
  );
  return replies.reduce((sum, one) => sum + one, 0) / replies.length;
}

await serve({ version: "", kinds: ["loop"] }, async ({ steps, groups, group, learningRate }: LoopWork) => {
  const model = await engine.models.create({ project: "loop", name: `run${runs++}`, base_model: "anneal/tiny" });
  const name = `${model.entity}/${model.project}/${model.name}`;
  const before = await score(name);
  const began = performance.now();
  const run = train(engine, {
    model,
    scenarios: trainingWords,
    groupsPerStep: groups,
    groupSize: group,
    steps,
    seed: runs,
    config: { learning_rate: learningRate },
    async rollout({ chat, scenario }) {
      return rewardOf(scenario, await chat(taskOf(scenario), { max_completion_tokens: 48 }));
    },
  });
  for await (const step of run) void step;
  const seconds = (performance.now() - began) / 1000;
  const all = performance.now();
  const after = await score(name);
  return { seconds, share: 1, before, after, scoring: (performance.now() - all) / 1000 };
});
await engine.close();
