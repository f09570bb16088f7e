// Tokens that are guessed from what has come before: the same tokens and log-probabilities as one by one, in fewer steps.

import { describe, expect, it } from "vitest";
import type { DeviceModel, SlotParams, StepOutput } from "../../src/runtime/runtime.js";
import { isGpu, someOnGpu } from "./device.js";
import { type Case, caseAdapter, expected, loadCase, pagesFrom, plainSlot } from "./referenceModel.js";

const OUTPUTS = 60;

interface Reply {
  tokens: number[];
  logprobs: number[];
  top: number[][];
  drafted: number;
  steps: number;
}

/** Of steps that go on from one another, each told what is known of the one before it. */
async function generate(
  model: DeviceModel,
  prompt: Int32Array,
  params: Partial<SlotParams>,
  { maxDrafts = 0, lookup = null as Int32Array | null, adapter = 0 } = {},
): Promise<Reply> {
  const slot = model.openSlot(plainSlot({ topLogprobs: 2, ...params }));
  const blocks = pagesFrom(0, prompt.length + OUTPUTS + 2 * maxDrafts + 2, model);
  const reply: Reply = { tokens: [], logprobs: [], top: [], drafted: 0, steps: 0 };
  const row = { slot, blocks, recurrent: 0, adapter, sample: true, promptLogprobs: -1, next: null };
  const take = ({ tokens, logprobs, top, drafts }: StepOutput) => {
    const { count = 0, kept = [] } = drafts?.[0] ?? {};
    for (const draw of [...kept, { token: tokens[0]!, logprob: logprobs[0]!, top: top[0] ?? null }]) {
      reply.tokens.push(draw.token);
      reply.logprobs.push(draw.logprob);
      reply.top.push([...draw.top!.ids, ...draw.top!.logprobs]);
    }
    reply.drafted += count;
    reply.steps++;
    return kept.length;
  };
  take(await model.step([{ ...row, tokens: prompt, position: 0, outputIndex: 0 }]));
  // Two steps in flight: a step is not told what the one before it has kept.
  let position = prompt.length;
  const next = (known: Int32Array | null = null) => {
    const outputIndex = position - prompt.length + 1;
    return model.step([{ ...row, tokens: null, position, outputIndex, maxDrafts, lookup: known }]);
  };
  let flying = next(lookup);
  while (reply.tokens.length < OUTPUTS) {
    position++;
    const behind = next();
    position += take(await flying);
    flying = behind;
  }
  await flying;
  model.closeSlot(slot);
  const { tokens, logprobs, top } = reply;
  return {
    ...reply,
    tokens: tokens.slice(0, OUTPUTS),
    logprobs: logprobs.slice(0, OUTPUTS),
    top: top.slice(0, OUTPUTS),
  };
}

describe.each(
  someOnGpu<Case>(
    [
      "llama",
      "qwen3",
      "qwen2_window",
      "gemma3_odd",
      "gemma4",
      "phi3",
      "qwen3_moe",
      "gpt_oss",
      "granite_odd",
      "qwen3_5",
      "lfm2",
      "lfm2_moe",
    ],
    (name) => name === "gemma3_odd",
  ),
)("%s", (name) => {
  it.each<[string, Partial<SlotParams>]>([
    ["greedy", { temperature: 0 }],
    ["sampled", { seed: 5n }],
    ["nearly greedy, with penalties", { seed: 6n, temperature: 0.3, repetitionPenalty: 1.2, frequencyPenalty: 0.3 }],
    [
      "with few tokens allowed",
      { seed: 7n, temperature: 2, allowedIds: Int32Array.of(3, 4, 5), badWords: [Int32Array.of(3, 4)] },
    ],
    [
      "thinking",
      { temperature: 0, thinking: { tokens: 21, used: 0, open: Int32Array.of(1), close: Int32Array.of(8, 9) } },
    ],
  ])("says the same, %s", async (_, params) => {
    const model = await loadCase(name, { dtype: "bfloat16" });
    const { spec, tensors } = await caseAdapter(name);
    const adapter = isGpu ? 0 : await model.loadAdapter(spec, tensors);
    const prompt = expected(name).rows[0]!.slice(0, 37);
    const each = await generate(model, prompt, { ...params, prompt }, { adapter });
    expect(each.drafted).toBe(0);
    // What has come before holds the reply itself, but for every ninth token.
    const altered = each.tokens.map((token, i) => (i % 9 === 8 ? (token + 1) % model.config.vocab : token));
    const lookups = { nothing: prompt, reply: Int32Array.from([...prompt, ...altered, ...prompt]) };
    for (const [known, lookup] of Object.entries(lookups)) {
      const together = await generate(model, prompt, { ...params, prompt }, { maxDrafts: 15, lookup, adapter });
      expect({ ...together, drafted: 0, steps: 0 }, known).toEqual({ ...each, steps: 0 });
      // How many are guessed depends on what a row more has taken.
      if (known === "reply") expect(together.steps).toBeLessThan(each.steps);
    }
    model.close();
  });
});

it.skipIf(!isGpu)("models with recurrent states refuse guesses on GPUs", async () => {
  const model = await loadCase("qwen3_5", { dtype: "bfloat16" });
  const slot = model.openSlot(plainSlot());
  const row = {
    slot,
    blocks: Int32Array.of(0),
    recurrent: 0,
    adapter: 0,
    sample: true,
    promptLogprobs: -1,
    next: null,
  };
  await model.step([{ ...row, tokens: Int32Array.of(1), position: 0, outputIndex: 0 }]);
  const further = { ...row, tokens: null, position: 1, outputIndex: 1 };
  await expect(model.step([{ ...further, maxDrafts: 1, lookup: Int32Array.of(1, 2, 3) }])).rejects.toThrow(
    "maxDrafts must be 0",
  );
  await model.step([further]);
  model.close();
});
