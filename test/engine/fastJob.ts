import { expect } from "vitest";
import { type Engine, gather } from "../../src/index.js";
import type { Model } from "../../src/types/models.js";

/** Trajectories of two scenarios, with rewards that differ. */
export const gathered = (engine: Engine, model: Model) =>
  gather(engine, {
    model,
    scenarios: ["river", "candle"],
    groupSize: 3,
    rollout: async ({ chat, scenario, seed }) => {
      await chat(`Spell "${scenario}" backwards, one word.`, { max_tokens: 8 });
      return Number(seed % 7n);
    },
  });

/** That a job of an engine with precision "fast" says so, trains on the very log-probabilities that were sampled, and how far they are. */
export async function expectFastJob(engine: Engine, kernel_set: string): Promise<void> {
  const model = await engine.models.create({ project: "p", name: "fast", base_model: "anneal/tiny" });
  const trajectory_groups = await gathered(engine, model);
  const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups });
  expect((await engine.trainingJobs.wait(id)).status).toBe("succeeded");
  const { data } = await engine.trainingJobs.events(id, { limit: 100 });
  expect(data[0]!.data).toMatchObject({ kernel_set });
  const { ratio_exact_share, logprob_difference_to_exact } = data[1]!.data as Record<string, number>;
  expect(ratio_exact_share).toBe(1);
  expect(logprob_difference_to_exact).toBeGreaterThan(0);
  expect(logprob_difference_to_exact).toBeLessThan(0.1);
}
