// Beam search over a real model, against what PyTorch and transformers find (test/reference/beams/make.py).

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { generate, InferenceLoop, type TokensEvent } from "../src/inference/index.js";
import { loadTokenizer, type Tokenizer } from "../src/text/index.js";
import { generationRequest } from "./fixtures/generationRequest.js";
import { loadCase } from "./native/referenceModel.js";

interface Expected {
  prompt: number[];
  cases: {
    width: number;
    steps: number;
    eos: number | null;
    penalty: number;
    beams: { tokens: number[]; sum: number }[];
  }[];
}
const reference = (path: string) => fileURLToPath(new URL(`reference/${path}`, import.meta.url));
const { prompt, cases } = JSON.parse(readFileSync(reference("beams/expected.json"), "utf8")) as Expected;

let tokenizer: Tokenizer;
beforeAll(async () => {
  tokenizer = await loadTokenizer(reference("tokenizers/qwen"));
});

describe.each(cases)("a search of width $width with end $eos and length penalty $penalty", (expected) => {
  test.each([64, 6])("finds what PyTorch finds, with %d pages", async (pages) => {
    const { width, steps, eos, penalty, beams } = expected;
    const device = await loadCase("qwen3", { kvPages: pages });
    const loop = new InferenceLoop(device, tokenizer, {
      ...{ maxSequences: 8, tokenBudget: 128, maxQueue: 10, scheduler: "fcfs", contextLength: 256 },
    });
    const beam = { width, lengthPenalty: penalty };
    const params = { temperature: 0, maxTokens: steps, eosId: eos, includeStop: true, logprobs: 0, beam };
    const generation = generate(loop, generationRequest({ promptTokens: prompt, n: width, params }));
    const choices: TokensEvent[] = [];
    for await (const event of generation) if (event.type === "tokens") choices.push(event);
    expect(choices.map(({ tokenIds }) => tokenIds)).toEqual(beams.map(({ tokens }) => tokens));
    for (const [i, { logprobs }] of choices.entries()) {
      expect(logprobs!.reduce((sum, logprob) => sum + logprob, 0)).toBeCloseTo(beams[i]!.sum, 3);
    }
    expect(loop.stats()).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
    device.close();
  });
});
