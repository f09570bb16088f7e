import { expect, it } from "vitest";
import { passLimits } from "./passLimits.js";
import type { TrainingBase } from "./trainingBase.js";

const baseOn = (device: string, config: object) =>
  ({ contextLength: 40_960, device: { device, config } }) as unknown as TrainingBase;
const base = baseOn("cpu", {});

it("activations take what memory there is, within bounds, and a full context always fits a pass", () => {
  expect(passLimits(base, 2 ** 29)).toEqual({ maxTokens: 40_960, passTokens: 2048, memoryBudget: 2 ** 29 });
  expect(passLimits(base, 64 * 2 ** 30).memoryBudget).toBe(64 * 2 ** 30);
  // A budget of 0 would mean no limit at all.
  expect(passLimits(base, 0).memoryBudget).toBe(64 * 2 ** 20);
  expect(passLimits(base, -1e9).memoryBudget).toBe(64 * 2 ** 20);
  expect(passLimits({ ...base, contextLength: 128 }, 2 ** 29).maxTokens).toBe(16_384);
});

it("passes over quantised weights are small on the processor", () => {
  const quantized = [{ tensor: "model.layers.0.mlp.up_proj.weight", format: "Q8_0" }];
  expect(passLimits(baseOn("cpu", { quantized }), 2 ** 29).passTokens).toBe(256);
  expect(passLimits(baseOn("cpu", { quantized: [] }), 2 ** 29).passTokens).toBe(2048);
  expect(passLimits(baseOn("vulkan:0", { quantized }), 2 ** 29).passTokens).toBe(2048);
});
