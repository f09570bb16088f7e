// A template that strips the thoughts of earlier answers: what was sampled is then no beginning of the next prompt, and is
// trained all the same, as it was sampled.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine, gather } from "../../src/index.js";
import type { TrajectoryChoice } from "../../src/types/trajectories.js";
import { DEVICE } from "../native/device.js";

let folder: string;
let engine: Engine;
beforeAll(async () => {
  folder = join(mkdtempSync(join(tmpdir(), "rewritten-")), "thinker");
  cpSync(new URL("../../models/tiny/", import.meta.url), folder, { recursive: true });
  // Its prompts open the thoughts, and show none of earlier answers.
  cpSync(new URL("../reference/templates/qwen3_5.jinja", import.meta.url), join(folder, "chat_template.jinja"));
  engine = await Engine.open({ device: DEVICE, models: [folder] });
});
afterAll(async () => {
  await engine.close();
  rmSync(join(folder, ".."), { recursive: true, force: true });
});

it("turns that the next prompt rewrites are trained with the tokens that were sampled, at ratios of exactly 1", async () => {
  const turn = (await engine.models.inspect(folder)).turns.find((one) => one.turn === "a reply with thoughts");
  expect(turn).toMatchObject({ exact: false });
  const model = await engine.models.create({ project: "p", name: "thinker", base_model: "thinker" });
  // Groups without a difference in reward teach nothing.
  let reward = 0;
  const groups = await gather(engine, {
    model,
    scenarios: ["river", "candle"],
    groupSize: 2,
    rollout: async ({ complete, scenario }) => {
      const messages: object[] = [];
      for (const content of [`Spell "${scenario}" backwards.`, "Again."]) {
        messages.push({ role: "user", content });
        const reply = await complete({ messages: messages as never, max_tokens: 12 });
        // With its thoughts, as a client sends them back.
        messages.push(reply.choices[0]!.message);
      }
      return reward++;
    },
  });
  const choices = groups.flatMap(({ trajectories }) =>
    trajectories.flatMap(({ messages_and_choices: items }) =>
      items.filter((item): item is TrajectoryChoice => "finish_reason" in item),
    ),
  );
  expect(choices).toHaveLength(8);
  const [first, second] = choices;
  expect(first!.message).toHaveProperty("reasoning");
  const sampled = [...first!.prompt_token_ids!, ...first!.token_ids!];
  expect(second!.prompt_token_ids!.slice(0, sampled.length)).not.toEqual(sampled);

  const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups: groups });
  expect((await engine.trainingJobs.wait(id)).status).toBe("succeeded");
  const { data } = await engine.trainingJobs.events(id, { limit: 100 });
  const steps = data
    .filter(({ type }) => type === "gradient_step")
    .map((event) => event.data as Record<string, number>);
  expect(steps[0]).toMatchObject({ ratio_exact_share: 1, ratio_max: 1, ratio_min: 1, approx_kl: 0 });
  const trained = steps.reduce((sum, step) => sum + step.num_trainable_tokens!, 0);
  expect(trained).toBe(choices.reduce((sum, { token_ids }) => sum + token_ids!.length, 0));
});
