// Models whose layers see a window, through the loop: the bits that training computes, with pages freed as texts grow, prefixes found
// again, and far too few pages.

import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { generate, InferenceLoop } from "../../src/inference/index.js";
import { openRuntime } from "../../src/runtime/runtime.js";
import { loadTokenizer } from "../../src/text/index.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { generationRequest } from "../fixtures/generationRequest.js";
import { type Case, caseAdapter, caseFolder, loadCase } from "./referenceModel.js";

const tokenizers = fileURLToPath(new URL("../reference/tokenizers/qwen", import.meta.url));

it.each<[Case, groups: number[]]>([
  ["gemma3", [0, 21]],
  ["gemma2", [0, 30]],
  ["ministral_odd", [0, 70]],
  ["mistral_window", [23]],
])("%s", async (name, pageGroups) => {
  const model = await loadCase(name, { dtype: "bfloat16", kvPages: 6 });
  expect(Array.from(model.pageGroups)).toEqual(pageGroups);
  const tokenizer = await loadTokenizer(tokenizers);
  const loop = new InferenceLoop(model, tokenizer, {
    ...{ maxSequences: 8, tokenBudget: 48, maxQueue: 100, scheduler: "fcfs", contextLength: model.config.maxPositions },
  });
  const { spec, tensors } = await caseAdapter(name);
  const adapter = await model.loadAdapter(spec, tensors);
  const { maxPositions, vocab } = model.config;
  const most = Math.min(maxPositions, 250);
  // Two prompts that begin alike, one of its own, and the first again.
  const prompt = (length: number, seed: number) => Array.from({ length }, (_, i) => (i * i * 7 + seed * 13) % vocab);
  const prompts = [prompt(most - 40, 1), [...prompt(70, 1), ...prompt(15, 2)], prompt(50, 3), prompt(most - 40, 1)];
  const params = { maxTokens: 40, seed: 3n, logprobs: 0 };
  const trainer = await model.trainAdapter(spec, { seed: 1n, tensors });
  const answered = prompts.map(async (promptTokens) => {
    const sampled: { token: number; logprob: number }[] = [];
    for await (const event of generate(loop, generationRequest({ promptTokens, adapter, n: 1, params }))) {
      if (event.type === "prompt") continue;
      const logprobs = event.logprobs!;
      for (const [i, token] of event.tokenIds.entries()) sampled.push({ token, logprob: logprobs[i]! });
    }
    return sampled;
  });
  for (const [i, sampled] of (await Promise.all(answered)).entries()) {
    expect(sampled).toHaveLength(40);
    const tokens = Int32Array.from([...prompts[i]!, ...sampled.map(({ token }) => token)]);
    const { logprobs } = await trainer.evaluate([{ tokens }]);
    const own = logprobs[0]!.subarray(prompts[i]!.length - 1, -1);
    expect(sampled.map(({ logprob }) => logprob)).toEqual([...own]);
  }
  expect(loop.stats().cacheUsage).toBe(0);
  await loop.close();
  trainer.close();
  model.close();
  await tokenizer.close();
});

it("a long context of a model with windows takes less", async () => {
  const { config } = await openWeightFolder(caseFolder("gemma3"));
  const layer = (window: number) => ({ ...config.layers[0]!, attention: { ...config.layers[0]!.attention!, window } });
  // Gemma 3 4B: five layers of 34 see everything.
  const layers = Array.from({ length: 34 }, (_, i) => layer((i + 1) % 6 === 0 ? 0 : 1024));
  const runtime = openRuntime();
  const whole = runtime.memory({ ...config, layers: layers.map(() => layer(0)) }, "bfloat16");
  const { page, pageGroups } = runtime.memory({ ...config, layers }, "bfloat16");
  expect(Array.from(pageGroups)).toEqual([0, 1024, 1024, 1024, 1024, 1024, 1024]);
  // One of 35 places for layers is left over.
  expect(page).toBe((whole.page * 35) / 34);
});
