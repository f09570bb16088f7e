// Decoders that other programs have exported (test/reference/onnx), behind the scheduler, against what PyTorch computes.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { InferenceLoop } from "../../src/inference/index.js";
import type { GenerationRequest, SamplingSettings } from "../../src/inference/request.js";
import { decoderLayout } from "../../src/runtime/onnx/decoderLayout.js";
import { DecoderSteps } from "../../src/runtime/onnx/decoderSteps.js";
import { openSession } from "../../src/runtime/onnx/openSession.js";
import { padsOnTheLeft } from "../../src/runtime/onnx/paddingProbe.js";
import { OnnxDecoder } from "../../src/runtime/runtime.js";
import type { Tokenizer } from "../../src/text/index.js";
import { openOnnxFolder } from "../../src/weights/index.js";
import { generationRequest } from "../fixtures/generationRequest.js";

const REFERENCE = fileURLToPath(new URL("../reference/onnx/", import.meta.url));
const FOLDERS = ["gpt_neox", "llama", "opt", "bloom", "grouped", "grouped_positions"];
const VOCAB = 704;

interface Expected {
  prompt: number[];
  tokens: number[];
  /** Of all tokens but the first. */
  logprobs: number[];
}

const textless = { stream: () => ({ push: () => "", flush: () => "" }) } as unknown as Tokenizer;

async function open(place: string, { pages = 64, tokenBudget = 512 } = {}) {
  const { file, bytes } = await openOnnxFolder(place);
  const decoder = await OnnxDecoder.open({ file, executionProvider: "cpu", threads: 1 });
  const device = await decoder.load({ vocab: VOCAB, maxPositions: 256, bytes }, pages);
  const options = { maxSequences: 16, tokenBudget, maxQueue: 100, scheduler: "fcfs", contextLength: 256 } as const;
  return { device, loop: new InferenceLoop(device, textless, options) };
}

async function generate(
  loop: InferenceLoop,
  promptTokens: number[],
  params: Partial<SamplingSettings> = {},
  more: Partial<GenerationRequest> = {},
) {
  const tokens: number[] = [];
  const logprobs: number[] = [];
  let prompt: (number | null)[] = [];
  let cached = 0;
  const request = generationRequest({ promptTokens, ...more, params: { temperature: 0, maxTokens: 70, ...params } });
  for await (const event of loop.submit(request)) {
    if (event.type === "prompt") {
      prompt = event.promptLogprobs?.map((entry) => entry?.logprob ?? null) ?? [];
      cached = event.cachedTokens;
    } else if (event.index === 0) {
      tokens.push(...event.tokenIds);
      logprobs.push(...(event.logprobs ?? []));
    }
  }
  return { tokens, logprobs, prompt, cached };
}

const near = (found: readonly (number | null)[], wanted: readonly number[]) => {
  expect(found.length).toBe(wanted.length);
  for (const [i, value] of wanted.entries()) expect(Math.abs(found[i]! - value)).toBeLessThan(1e-3);
};

describe.each(FOLDERS)("%s", (name) => {
  const place = join(REFERENCE, name);
  const cases: Expected[] = JSON.parse(readFileSync(join(place, "expected.json"), "utf8"));

  it("generates what PyTorch generates, one by one and all at once, with its log-probabilities", async () => {
    const { device, loop } = await open(place);
    const asked = { logprobs: 0, promptLogprobs: 0 };
    for (const { prompt, tokens, logprobs } of cases) {
      const alone = await generate(loop, prompt, asked, { useCache: false });
      expect(alone.tokens).toEqual(tokens);
      near([...alone.prompt.slice(1), ...alone.logprobs], logprobs);
    }
    // Behind prompts of other lengths, and each prompt twice at different times.
    const together = await Promise.all(
      [...cases, ...cases].map(({ prompt }) => generate(loop, prompt, { logprobs: 0 })),
    );
    for (const [i, { tokens, logprobs }] of together.entries()) {
      const wanted = cases[i % cases.length]!;
      expect(tokens).toEqual(wanted.tokens);
      near(logprobs, wanted.logprobs.slice(wanted.prompt.length - 1));
    }
    await loop.close();
    device.close();
  });

  it("computes sequences of different lengths in one run", async () => {
    const { file } = await openOnnxFolder(place);
    const { runtime, session, description } = await openSession({ file, executionProvider: "cpu", threads: 1 });
    const layout = decoderLayout(description);
    // What takes no positions may make them of the mask.
    const padding = layout.padding ?? ((await padsOnTheLeft(runtime, session, layout)) ? "left" : null);
    expect(padding).not.toBeNull();
    const steps = new DecoderSteps(runtime, session, { ...layout, padding }, VOCAB, 8);
    const rows = cases.map(({ prompt }, i) => ({
      tokens: Int32Array.from(prompt),
      position: 0,
      blocks: Int32Array.of(i),
      logits: "last" as const,
    }));
    await steps.step(rows);
    const runs = vi.spyOn(session, "run");
    await steps.step(
      cases.map(({ prompt, tokens }, i) => ({
        ...rows[i]!,
        tokens: Int32Array.of(tokens[0]!),
        position: prompt.length,
      })),
    );
    expect(runs).toHaveBeenCalledTimes(1);
    await session.release();
  });

  it("goes on from cached pages, in chunks, and after losing its pages", async () => {
    const { device, loop } = await open(place, { pages: 6, tokenBudget: 16 });
    const [first] = cases;
    const long = [...first!.prompt, ...first!.tokens];
    const whole = await generate(loop, long, { maxTokens: 40 }, { useCache: false });
    const again = await generate(loop, long, { maxTokens: 40 });
    expect(again.tokens).toEqual(whole.tokens);
    expect((await generate(loop, long, { maxTokens: 40 })).cached).toBeGreaterThan(32);
    const crowd = await Promise.all(cases.flatMap(({ prompt }) => [0, 1].map(() => generate(loop, prompt))));
    for (const [i, { tokens }] of crowd.entries()) expect(tokens).toEqual(cases[Math.floor(i / 2)]!.tokens);
    expect(loop.stats().preemptions).toBeGreaterThan(0);
    await loop.close();
    device.close();
  });

  it("shares a prompt between choices, which then go their own ways", async () => {
    const { device, loop } = await open(place);
    const { prompt } = cases[1]!;
    const settings = { params: { temperature: 1, seed: 5n, maxTokens: 20 }, n: 3, promptTokens: prompt };
    const choices: number[][] = [[], [], []];
    for await (const event of loop.submit(generationRequest(settings))) {
      if (event.type === "tokens") choices[event.index]!.push(...event.tokenIds);
    }
    for (const [i, tokens] of choices.entries()) {
      const seed = 5n + BigInt(i);
      expect((await generate(loop, prompt, { temperature: 1, seed, maxTokens: 20 })).tokens).toEqual(tokens);
    }
    await loop.close();
    device.close();
  });
});
