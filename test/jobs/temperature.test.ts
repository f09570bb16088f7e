// Rollouts at a temperature are trained at it: their importance ratios are exactly 1 on the weights that sampled them.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine, gather } from "../../src/index.js";
import type { ChatCompletionCreateParams } from "../../src/types/chat.js";
import type { TrajectoryChoice, TrajectoryGroup } from "../../src/types/trajectories.js";
import { DEVICE, itUnlessSlow, someOnGpu } from "../native/device.js";

let engine: Engine;
beforeAll(async () => {
  engine = await Engine.open({ device: DEVICE });
});
afterAll(() => engine.close());

async function groupsOf(name: string, params: Omit<ChatCompletionCreateParams, "messages">) {
  const model = await engine.models.create({ project: "p", name, base_model: "anneal/tiny" });
  const groups = await gather(engine, {
    model,
    scenarios: ["river", "candle"],
    groupSize: 4,
    rollout: async ({ chat, scenario, seed }) => {
      await chat(`Spell "${scenario}" backwards, one word.`, { ...params, max_tokens: 12 });
      await chat("Again.", { ...params, max_tokens: 12 });
      return Number(seed % 7n);
    },
  });
  return { modelId: model.id, groups };
}

async function firstStep(modelId: string, groups: TrajectoryGroup[], learning_rate = 1e-3) {
  const experimental_config = { learning_rate };
  const { id } = await engine.trainingJobs.create({
    model_id: modelId,
    trajectory_groups: groups,
    experimental_config,
  });
  expect((await engine.trainingJobs.wait(id)).status).toBe("succeeded");
  const { data } = await engine.trainingJobs.events(id, { limit: 100 });
  const [started, step] = [data[0]!.data, data.find(({ type }) => type === "gradient_step")!.data];
  return { started: started as Record<string, unknown>, step: step as Record<string, number> };
}

const choicesOf = (groups: TrajectoryGroup[]) =>
  groups.flatMap(({ trajectories }) =>
    trajectories.flatMap(({ messages_and_choices: items }) =>
      items.filter((item): item is TrajectoryChoice => "finish_reason" in item),
    ),
  );

describe("rollouts at a temperature", () => {
  it.each(someOnGpu([0.6, 1.4], (temperature) => temperature < 1))(
    "of %d have ratios of exactly 1, and count as on-policy",
    async (temperature) => {
      const { modelId, groups } = await groupsOf(`at-${temperature}`, { temperature });
      for (const { logprobs, sampling_settings } of choicesOf(groups)) {
        expect(sampling_settings).toEqual({ temperature });
        const entries = logprobs!.content!;
        expect(entries.every((entry) => entry.temperature_logprob! <= 0)).toBe(true);
        expect(entries.some((entry) => entry.temperature_logprob !== entry.logprob)).toBe(true);
      }
      const { started, step } = await firstStep(modelId, groups);
      expect(started.off_policy_sampling).toBe(0);
      expect(started).not.toHaveProperty("warnings");
      expect(step).toMatchObject({ ratio_exact_share: 1, ratio_max: 1, ratio_min: 1, approx_kl: 0 });
    },
  );

  itUnlessSlow("at 1 say nothing of it", async () => {
    const { groups } = await groupsOf("plain", {});
    for (const { logprobs } of choicesOf(groups)) {
      for (const entry of logprobs!.content!) expect(entry).not.toHaveProperty("temperature_logprob");
    }
  });

  itUnlessSlow("with filters besides still count as off-policy, at their temperature", async () => {
    const { modelId, groups } = await groupsOf("filtered", { temperature: 0.8, top_p: 0.9 });
    const { started, step } = await firstStep(modelId, groups);
    expect(started.off_policy_sampling).toBe(1);
    expect(step.ratio_exact_share).toBe(1);
  });

  itUnlessSlow("whose logprobs at it were not kept are trained at 1, with a warning", async () => {
    const { modelId, groups } = await groupsOf("stripped", { temperature: 0.8 });
    for (const { logprobs } of choicesOf(groups))
      for (const entry of logprobs!.content!) delete entry.temperature_logprob;
    const { started, step } = await firstStep(modelId, groups);
    expect(started.off_policy_sampling).toBe(1);
    expect(started.warnings).toHaveLength(1);
    expect(step.ratio_exact_share).toBe(1);
  });
});
