// Classifiers in ONNX as reward models.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import { Engine, gather, onnxReward, train } from "../../src/index.js";
import { OnnxEncoder } from "../../src/onnx/onnxEncoder.js";
import type { ChatMessageParam } from "../../src/types/chat.js";

const reference = (name: string) => fileURLToPath(new URL(`../reference/onnx/${name}`, import.meta.url));
const signal = new AbortController().signal;

const conversation: ChatMessageParam[] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "what is 3 + 4?" },
  { role: "assistant", content: "seven" },
];

it("scores the last reply, a pair, or what is made of a conversation", async () => {
  const cases = JSON.parse(readFileSync(`${reference("bert_reward")}/expected.json`, "utf8"));
  const logitOf = (text: unknown) =>
    cases.find((one: { text: unknown }) => JSON.stringify(one.text) === JSON.stringify(text)).logits[0];
  const pair = onnxReward(reference("bert_reward"), { input: "pair" });
  expect(await pair(conversation, { signal })).toBeCloseTo(logitOf(["what is 3 + 4?", "seven"]), 4);
  const reply = onnxReward(reference("bert_reward"));
  expect(
    await reply([...conversation.slice(0, 2), { role: "assistant", content: "hello world" }], { signal }),
  ).toBeCloseTo(logitOf("hello world"), 4);
  const made = onnxReward(reference("bert_reward"), { input: () => "hello world" });
  expect(await made(conversation, { signal })).toBeCloseTo(logitOf("hello world"), 4);
  for (const model of [pair, reply, made]) model.close();
});

it("classifies together what waits together, each reply with its own score", async () => {
  const replies = Array.from({ length: 24 }, (_, i) => "hello world ".repeat(i + 1));
  const of = (content: string): ChatMessageParam[] => [...conversation.slice(0, 2), { role: "assistant", content }];
  const reward = onnxReward(reference("bert_reward"));
  const alone: number[] = [];
  for (const reply of replies) alone.push(Number(await reward(of(reply), { signal })));
  const runs = vi.spyOn(OnnxEncoder.prototype, "classify");
  const scores = await Promise.all(replies.map((reply) => reward(of(reply), { signal })));
  expect(runs.mock.calls.map(([texts]) => texts.length)).toEqual([replies.length]);
  runs.mockRestore();
  for (const [i, score] of scores.entries()) expect(Number(score)).toBeCloseTo(alone[i]!, 4);
  // While a run is under way others gather.
  const late = replies.map(async (reply, i) => {
    await new Promise((resolve) => setTimeout(resolve, i % 3));
    return reward(of(reply), { signal });
  });
  for (const [i, score] of (await Promise.all(late)).entries()) expect(Number(score)).toBeCloseTo(alone[i]!, 4);
  reward.close();
  await expect(reward(of("hello"), { signal })).rejects.toMatchObject({ code: "closed" });
});

it("gives the probability of a class, and names those there are", async () => {
  const good = onnxReward(reference("bert_classes"), { label: "good" });
  const fair = onnxReward(reference("bert_classes"), { label: "fair" });
  const bad = onnxReward(reference("bert_classes"), { label: "bad" });
  const shares = await Promise.all([good, fair, bad].map((model) => model(conversation, { signal })));
  expect(shares.map(Number).reduce((sum, share) => sum + share)).toBeCloseTo(1, 5);
  for (const model of [good, fair, bad]) model.close();
  for (const options of [{}, { label: "splendid" }]) {
    await expect(onnxReward(reference("bert_classes"), options)(conversation, { signal })).rejects.toMatchObject({
      param: "label",
      message: expect.stringContaining("there is bad, fair, good"),
    });
  }
  await expect(onnxReward(reference("bert"))(conversation, { signal })).rejects.toThrow("no classes");
});

it("lifts the score that it gives", async () => {
  await using engine = await Engine.open({});
  const model = await engine.models.create({ project: "p", name: "digits", base_model: "anneal/tiny" });
  const reward = onnxReward(reference("digits"));
  const rewards: number[] = [];
  for await (const step of train(engine, {
    model,
    scenarios: ["Write a number.", "What is 30 + 12?", "How many letters are in planet?", "Count."],
    groupSize: 12,
    steps: 6,
    seed: 1,
    config: { learning_rate: 3e-3 },
    reward,
    async rollout({ chat, scenario }) {
      await chat(scenario, { max_tokens: 12, temperature: 1 });
    },
  })) {
    rewards.push(step.train.reward!);
  }
  reward.close();
  expect(rewards.at(-1)!).toBeGreaterThan(rewards[0]! + 0.3);
});

it("fails the attempts that it cannot score", async () => {
  await using engine = await Engine.open({});
  const options = { model: "anneal/tiny", scenarios: ["Hi"], groupSize: 2 };
  const chat = async ({ chat }: { chat(text: string, params: object): Promise<string> }) => {
    await chat("Hi", { max_tokens: 2 });
    return 5;
  };
  const [scored] = await gather(engine, { ...options, rollout: chat, reward: async (messages) => messages.length });
  expect(scored!.trajectories.map((trajectory) => trajectory.reward)).toEqual([2, 2]);
  const wrong = gather(engine, { ...options, rollout: chat, reward: async () => Number.NaN });
  await expect(wrong).rejects.toMatchObject({ cause: { code: "invalid_reward", param: "reward" } });
  const silent = gather(engine, { ...options, rollout: async () => undefined, reward: async () => 1 });
  await expect(silent).rejects.toMatchObject({ cause: { code: "invalid_reward", param: "rollout" } });
});
