// Trains all weights of a model and saves them after every step, telling before and after: `fullWeightsProcess.ts HOME`.

import { Engine } from "../../src/anneal.js";
import { rows } from "./trainingRows.js";

const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
const messages = [{ role: "user" as const, content: "Hi" }];
const engine = await Engine.open({ home: process.argv[2]! });
const model = await engine.models.create({
  project: "p",
  name: "whole",
  base_model: "anneal/tiny",
  return_existing: true,
});
const session = await engine.training.open(model, { weights: "full" });
const served = (await engine.baseModels.list()).includes("p/whole-full");
let number = 0;
for (let first = true; ; first = false) {
  const { choices } = await session.sample({
    messages,
    temperature: 0,
    max_tokens: 12,
    logprobs: true,
    top_logprobs: 3,
  });
  const logprobs = choices[0]!.logprobs!.content!.map(({ logprob }) => logprob);
  // What an earlier process saved is where this one begins.
  if (first) say({ number, saved: served, logprobs });
  else {
    number += 1;
    say({ number, saved: false, logprobs });
    await session.saveState();
    say({ number, saved: true });
  }
  await session.forwardBackward(rows, { loss: "cross_entropy" });
  await session.optimStep({ learningRate: 1e-3, weightDecay: 0, maxGradNorm: 1 });
}
