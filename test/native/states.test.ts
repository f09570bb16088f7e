// Hidden states after the final norm: those that PyTorch's logits are made of, and the same bits however the work is cut.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DeviceModel } from "../../src/runtime/runtime.js";
import { readSafetensors } from "../../src/weights/safetensors.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { someOnGpu, TYPES } from "./device.js";
import { CASES, caseAdapter, caseFolder, expected, loadCase, pagesFrom } from "./referenceModel.js";

const quiet = { slot: -1, recurrent: 0, sample: false, outputIndex: 0, promptLogprobs: -1, next: null };

async function statesOf(model: DeviceModel, row: Int32Array, adapter = 0): Promise<Float32Array> {
  const blocks = pagesFrom(0, row.length, model);
  const { states } = await model.step([{ ...quiet, tokens: row, position: 0, blocks, adapter, states: row.length }]);
  return states[0]!;
}

/** The head's weight, [vocab][hidden]. */
async function headOf(name: (typeof CASES)[number]): Promise<Float32Array> {
  const { config, tensors } = await openWeightFolder(caseFolder(name));
  const wanted = config.tiedHead ? "model.embed_tokens.weight" : "lm_head.weight";
  const { file } = tensors.find((tensor) => tensor.name === wanted)!;
  const { tensors: stored } = await readSafetensors(file);
  // Of a folder that sees, by the name that it has there.
  return (stored.get(wanted) ?? stored.get(wanted.replace("model.", "model.language_model.")))!.data;
}

describe.each(someOnGpu(CASES, (name) => name === "gemma3_odd"))("%s", (name) => {
  const { rows, floats } = expected(name);
  let model: DeviceModel;
  beforeAll(async () => {
    model = await loadCase(name);
  });
  afterAll(() => model.close());

  it("gives the states that the logits of PyTorch are products of", async () => {
    const { hidden, vocab, logitScale, logitSoftCap } = model.config;
    const capped = (logit: number) => (logitSoftCap > 0 ? logitSoftCap * Math.tanh(logit / logitSoftCap) : logit);
    const head = await headOf(name);
    const { spec, tensors } = await caseAdapter(name);
    const adapter = await model.loadAdapter(spec, tensors);
    for (const [r, row] of rows.entries()) {
      for (const [version, tensor] of [
        [0, "logits"],
        [adapter, "adapter_logits"],
      ] as const) {
        const states = await statesOf(model, row, version);
        const logits = floats(`row${r}.${tensor}`);
        expect(states.length).toBe(row.length * hidden);
        let worst = 0;
        // Float32 itself is no finer for logits beyond 10.
        let largest = 10;
        for (let t = 0; t < row.length; t++) {
          for (let token = 0; token < vocab; token++) {
            let sum = 0;
            for (let i = 0; i < hidden; i++) sum += states[t * hidden + i]! * head[token * hidden + i]!;
            const logit = logits[t * vocab + token]!;
            largest = Math.max(largest, Math.abs(logit));
            worst = Math.max(worst, Math.abs(capped(sum * logitScale) - logit));
          }
        }
        expect(worst, `row ${r}, ${tensor}`).toBeLessThan(1e-5 * largest);
      }
    }
  });
});

describe.each(TYPES)("in %s", (dtype) => {
  it("gives the same bits in one piece, in pieces, beside other sequences and beside draws", async () => {
    const model = await loadCase("qwen3", { dtype });
    const [row, other] = [expected("qwen3").rows[0]!, expected("qwen3").rows[1]!];
    const { hidden } = model.config;
    const whole = await statesOf(model, row);
    const blocks = pagesFrom(0, row.length, model);
    const pieces: number[] = [];
    for (let position = 0; position < row.length; position += 3) {
      const tokens = row.slice(position, position + 3);
      const { states } = await model.step([
        { ...quiet, tokens, position, blocks, adapter: 0, states: tokens.length },
        { ...quiet, tokens: other, position: 0, blocks: pagesFrom(20, other.length, model), adapter: 0 },
      ]);
      pieces.push(...states[0]!);
    }
    expect(pieces).toEqual([...whole]);
    const last = await model.step([
      { ...quiet, tokens: other, position: 0, blocks: pagesFrom(20, other.length, model), adapter: 0 },
      { ...quiet, tokens: row, position: 0, blocks, adapter: 0, states: 1 },
    ]);
    expect(last.states[0]).toBeNull();
    expect([...last.states[1]!]).toEqual([...whole.subarray(-hidden)]);
    model.close();
  });
});

it("refuses more states than tokens, before anything is computed", async () => {
  const model = await loadCase("qwen3");
  const sequence = { ...quiet, tokens: Int32Array.of(1, 2), position: 0, blocks: pagesFrom(0, 2, model), adapter: 0 };
  for (const [states, param] of [
    [3, "sequences[0].states"],
    [-1, "sequences[0].states"],
    [0.5, "sequences[0].states"],
  ] as const) {
    await expect(model.step([{ ...sequence, states }])).rejects.toMatchObject({ code: "invalid_argument", param });
  }
  expect((await model.step([{ ...sequence, states: 2 }])).states[0]!.length).toBe(2 * model.config.hidden);
  model.close();
});
