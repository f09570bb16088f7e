// Makes a named run in a home, or kills itself on the way.
// Usage: runProcess.ts HOME [rollout|gradient_step|training_ended STEP]

import { Engine } from "../../src/anneal.js";
import { train } from "../../src/gather/index.js";

const [home, moment, step] = process.argv.slice(2) as [string, string?, string?];
const die = () => process.kill(process.pid, "SIGKILL");

await using engine = await Engine.open({ home });
const model = await engine.models.create({ project: "p", name: "m", base_model: "anneal/tiny", return_existing: true });
const { store } = engine.core;

/** Kills at the first event of that type of the job that trains from the step. */
function watch(): void {
  for (const job of store.jobs.unfinished()) {
    store.events.subscribe(job.id, ({ type }) => {
      if (
        type === moment &&
        store.checkpoints.latest(model.id)!.step === Number(step) + Number(type === "training_ended")
      )
        die();
    });
  }
}

const run = train(engine, {
  name: "steady",
  model,
  scenarios: ["red", "blue", "green", "grey", "pink"],
  validation: ["black", "white"],
  groupSize: 4,
  groupsPerStep: 2,
  steps: 4,
  seed: 3,
  config: { learning_rate: 1e-3 },
  async rollout({ chat, scenario, model: name, seed }) {
    const reply = await chat(`Say ${scenario}.`, { max_tokens: 8 });
    if (moment === "rollout" && name.endsWith(`:step${step}`) && seed % 3n === 0n) die();
    return reply.length + Number(seed % 5n);
  },
  onProgress: ({ phase }) => phase === "training" && watch(),
});
for await (const report of run) {
  console.log(JSON.stringify({ step: report.step, reward: report.train.reward, warnings: report.warnings }));
}
