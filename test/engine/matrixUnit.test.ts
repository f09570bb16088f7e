// Engines with precision "fast" on the processor: on its matrix unit, or refused.

import { describe, expect, it } from "vitest";
import { Engine, listDevices } from "../../src/index.js";
import { openRuntime } from "../../src/runtime/runtime.js";
import { rows } from "../train/trainingRows.js";
import { expectFastJob } from "./fastJob.js";

const hasUnit = openRuntime().hasMatrixUnit;
if (!hasUnit) console.info("the processor has no matrix unit: engines on it are only refused");

describe.runIf(hasUnit)("an engine on the matrix unit", { timeout: 120_000 }, () => {
  it("trains on what it sampled, with the very same log-probabilities, and says how far those are from exact ones", async () => {
    await using engine = await Engine.open({ home: null, precision: "fast" });
    await expectFastJob(engine, "amx");
  });

  it("trains all weights with the bits that it samples with", async () => {
    await using engine = await Engine.open({ home: null, precision: "fast" });
    const model = await engine.models.create({ project: "p", name: "whole", base_model: "anneal/tiny" });
    const asked = {
      messages: [{ role: "user" as const, content: "Hi" }],
      temperature: 0,
      max_tokens: 12,
      logprobs: true,
    };
    const untrained = await engine.chat.completions.create({ ...asked, model: "anneal/tiny" });
    await using session = await engine.training.open(model, { weights: "full" });
    expect((await session.sample(asked)).choices).toEqual(untrained.choices);
    await session.forwardBackward(rows, { loss: "cross_entropy" });
    await session.optimStep({ learningRate: 1e-3, weightDecay: 0, maxGradNorm: 1 });
    expect((await session.sample(asked)).choices).not.toEqual(untrained.choices);
  });

  it("refuses models in float32, saying what to do", async () => {
    await expect(Engine.open({ home: null, precision: "fast", dtype: "float32" })).rejects.toMatchObject({
      code: "unusable_device",
      message: expect.stringContaining("bfloat16"),
    });
  });
});

it.runIf(!hasUnit)("refuses precision fast where the processor has no matrix unit", async () => {
  await expect(Engine.open({ home: null, precision: "fast" })).rejects.toMatchObject({
    code: "unusable_device",
    param: "precision",
  });
});

it("says of the processor what precision may be", async () => {
  const [cpu] = await listDevices();
  expect(cpu!.precisions).toEqual(hasUnit ? ["exact", "fast"] : ["exact"]);
});
