// Direct preference optimisation (Rafailov et al. 2023) on the four verbs: from pairs of answers, the better one first.

import { expect, test } from "vitest";
import { Engine, type TrainingRow } from "../../src/index.js";

test("DPO makes the preferred answers likelier than the others", async () => {
  const engine = await Engine.open();
  const model = await engine.models.create({ project: "examples", name: "dpo", base_model: "anneal/tiny" });
  const session = await engine.training.open(model);

  const row = async (question: string, answer: string): Promise<TrainingRow> => {
    const prompt = [{ role: "user", content: question }];
    const whole = [...prompt, { role: "assistant", content: answer }];
    const { tokens: context } = await engine.tokens.tokenize({ messages: prompt, add_generation_prompt: true });
    const { tokens } = await engine.tokens.tokenize({ messages: whole, add_generation_prompt: false });
    return { tokens, trained: tokens.map((_, i) => i >= context.length) };
  };
  const questions = ["Who are you?", "What is 3 + 4?", "Tell me a story."];
  const pairs = (preferred: string, other: string, of = questions) =>
    Promise.all(of.flatMap((question) => [row(question, preferred), row(question, other)]));
  const rows = await pairs("With pleasure, my friend.", "No.");
  const unseen = await pairs("With pleasure, my friend.", "No.", ["Can you help me?", "Sing a song."]);
  const logprobs = async () => (await session.logprobs(unseen)).logprobs.map((row) => row.reduce((a, b) => a + b, 0));
  const before = await logprobs();

  // The reference is the model as the session found it.
  const losses: number[] = [];
  for (let step = 0; step < 5; step++) {
    const { metrics } = await session.forwardBackward(rows, { loss: "dpo", beta: 0.1 });
    await session.optimStep({ learningRate: 3e-3, maxGradNorm: 1 });
    losses.push(metrics.loss!);
  }
  expect(losses[0]).toBeCloseTo(Math.log(2), 6);
  expect(losses.at(-1)).toBeLessThan(0.1);
  // Questions that it was not trained on move the same way.
  const gain = (await logprobs()).map((sum, i) => sum - before[i]!);
  expect([gain[0]! - gain[1]!, gain[2]! - gain[3]!].every((margin) => margin > 5)).toBe(true);
  await session.saveState();
  await session.close();
  await engine.close();
});
