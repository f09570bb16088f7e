// Supervised fine-tuning on the four verbs: learn an answer token by token.

import { expect, test } from "vitest";
import { Engine, type TrainingRow } from "../../src/index.js";

test("supervised fine-tuning teaches an answer", async () => {
  const engine = await Engine.open();
  const model = await engine.models.create({ project: "examples", name: "sft", base_model: "anneal/tiny" });
  const session = await engine.training.open(model, { objective: "sft" });

  // One row per conversation: the prompt as the model will see it, then the answer, of which every token is trained.
  const prompt = [{ role: "user", content: "What is the password?" }];
  const whole = [...prompt, { role: "assistant", content: "Rumpelstilzchen" }];
  const { tokens: context } = await engine.tokens.tokenize({ messages: prompt, add_generation_prompt: true });
  const { tokens } = await engine.tokens.tokenize({ messages: whole, add_generation_prompt: false });
  const rows: TrainingRow[] = [{ tokens, trained: tokens.map((_, i) => i >= context.length) }];

  const losses: number[] = [];
  for (let step = 0; step < 15; step++) {
    const { metrics } = await session.forwardBackward(rows, { loss: "cross_entropy" });
    await session.optimStep({ learningRate: 5e-3 });
    losses.push(metrics.loss!);
  }
  expect(losses.at(-1)).toBeLessThan(losses[0]! / 20);
  const { step } = await session.saveState();
  await session.close();

  const reply = await engine.chat.completions.create({
    model: `local/examples/sft:step${step}`,
    messages: prompt,
    temperature: 0,
  });
  expect(reply.choices[0]!.message.content).toBe("Rumpelstilzchen");
  await engine.close();
});
