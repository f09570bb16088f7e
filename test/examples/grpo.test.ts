// Group relative policy optimisation (Shao et al. 2024) on the four verbs: sample a group, compare its rewards, step.

import { expect, test } from "vitest";
import { Engine, type TrainingRow } from "../../src/index.js";

const words = ["planet", "garden", "river", "candle"];
const GROUP = 8;
const ROUNDS = 6;

test("GRPO raises a reward", async () => {
  const engine = await Engine.open();
  const model = await engine.models.create({ project: "examples", name: "grpo", base_model: "anneal/tiny" });
  const session = await engine.training.open(model);

  const history: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    let total = 0;
    for (const word of words) {
      const { choices, prompt_token_ids } = await session.sample({
        messages: [{ role: "user", content: `Spell "${word}" backwards, one word.` }],
        n: GROUP,
        seed: round,
        max_tokens: 24,
      });
      const backwards = [...word].reverse().join("");
      const rewards = choices.map(({ message }) => (message.content?.trim() === backwards ? 1 : 0));
      const mean = rewards.reduce<number>((sum, reward) => sum + reward, 0) / GROUP;
      const deviation = Math.sqrt(mean * (1 - mean));
      total += mean;
      if (deviation === 0) continue;

      // One row per choice: the prompt they share, then what was sampled, with its advantage and the logprobs it had.
      const prompt = prompt_token_ids!;
      const beside = <T>(value: T): T[] => prompt.map(() => value);
      const rows = choices.map((choice, i): TrainingRow => {
        const sampled = choice.logprobs!.content!;
        const advantage = (rewards[i]! - mean) / (deviation + 1e-6);
        return {
          tokens: [...prompt, ...choice.token_ids!],
          trained: [...beside(false), ...sampled.map(() => true)],
          advantages: [...beside(0), ...sampled.map(() => advantage)],
          oldLogprobs: [...beside(Number.NaN), ...sampled.map(({ logprob }) => logprob)],
        };
      });
      const { metrics } = await session.forwardBackward(rows, { loss: "ppo", epsilon: 0.2 });
      // The trainer computes the very numbers that the sampler did.
      expect(metrics.ratio_exact_share).toBe(1);
      await session.optimStep({ learningRate: 1e-3 });
    }
    history.push(total / words.length);
  }
  const [first, last] = [history[0]!, history.at(-1)!];
  expect(last, history.join(" ")).toBeGreaterThan(first + 0.2);
  const { step } = await session.saveState({ metrics: { "train/reward": last } });
  expect(step).toBe(1);
  await session.close();
  await engine.close();
});
