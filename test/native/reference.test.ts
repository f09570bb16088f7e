// Numbers of PyTorch, transformers and peft on tiny models of every family, against ours. Tolerances are those of the reference.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DeviceModel, PassResult, Trainer, TrainRow } from "../../src/runtime/runtime.js";
import { isGpu, someOnGpu } from "./device.js";
import {
  CASES,
  caseAdapter,
  expected,
  loadCase,
  pagesFrom,
  plainSlot,
  relativeError,
  trainsAdaptersAlone,
} from "./referenceModel.js";

const OPTIMIZER = { learningRate: 1e-3, beta1: 0.9, beta2: 0.99, eps: 1e-8, weightDecay: 0.1, maxGradNorm: 0.1 };

/** Mean cross-entropy over all predicted tokens. */
function meanLoss(result: PassResult): number {
  const all = result.logprobs.flatMap((row) => [...row.subarray(0, -1)]);
  return -all.reduce((sum, logprob) => sum + logprob, 0) / all.length;
}

async function forwardBackward(trainer: Trainer, rows: TrainRow[]): Promise<number> {
  const pass = await trainer.forward(rows);
  const predicted = rows.reduce((sum, row) => sum + row.tokens.length - 1, 0);
  await pass.backward(pass.logprobs.map((row) => new Float32Array(row.length).fill(-1 / predicted, 0, -1)));
  return meanLoss(pass);
}

describe.each(someOnGpu(CASES, (name) => name === "gemma3_odd"))("%s", (name) => {
  const { rows: tokens, floats, names, facts } = expected(name);
  const rows = tokens.map((row) => ({ tokens: row }));
  let model: DeviceModel;
  let adapter: Awaited<ReturnType<typeof caseAdapter>>;

  beforeAll(async () => {
    model = await loadCase(name);
    adapter = await caseAdapter(name);
  });
  afterAll(() => model.close());

  it("gives the log-probabilities of every prompt token", async () => {
    for (const [r, row] of tokens.entries()) {
      const next = Int32Array.of(...row.subarray(1), -1);
      const blocks = pagesFrom(0, row.length, model);
      const sequence = {
        slot: -1,
        tokens: row,
        position: 0,
        recurrent: 0,
        blocks,
        adapter: 0,
        sample: false,
        outputIndex: 0,
      };
      const { prompt } = await model.step([{ ...sequence, promptLogprobs: 3, next }]);
      const wanted = floats(`row${r}.logprobs`);
      const logits = floats(`row${r}.logits`);
      for (const [t, logprob] of wanted.entries()) {
        const entry = prompt[0]![t]!;
        expect(Math.abs(entry.logprob - logprob)).toBeLessThan(1e-4);
        const own = [...logits.subarray(t * model.config.vocab, (t + 1) * model.config.vocab)];
        const best = own.map((value, id) => ({ value, id })).sort((a, b) => b.value - a.value);
        expect([...entry.topIds]).toEqual(best.slice(0, 3).map(({ id }) => id));
        expect(entry.rank).toBe(own.filter((value) => value >= own[row[t + 1]!]!).length);
        expect(Math.abs(entry.topLogprobs[0]! - (best[0]!.value - own[row[t + 1]!]! + logprob))).toBeLessThan(2e-4);
      }
    }
  });

  it("draws the same greedy tokens, each from the last without passing it back", async () => {
    for (const [r, row] of tokens.entries()) {
      const slot = model.openSlot(plainSlot({ temperature: 0 }));
      const blocks = pagesFrom(0, row.length + 24, model);
      const drawn: number[] = [];
      for (let i = 0; i < 24; i++) {
        const position = i === 0 ? 0 : row.length + i - 1;
        const given = {
          slot,
          tokens: i === 0 ? row : null,
          position,
          recurrent: 0,
          blocks,
          adapter: 0,
          sample: true,
          outputIndex: i,
        };
        drawn.push((await model.step([{ ...given, promptLogprobs: -1, next: null }])).tokens[0]!);
      }
      model.closeSlot(slot);
      expect(drawn).toEqual(facts.greedy[r]);
    }
  });

  it("gives the log-probabilities under the adapter", async () => {
    const version = await model.loadAdapter(adapter.spec, adapter.tensors);
    const trainer = await model.trainAdapter(adapter.spec, { seed: 1n });
    const { logprobs } = await trainer.evaluate(rows, { adapter: version });
    for (const [r, row] of tokens.entries()) {
      const logits = floats(`row${r}.adapter_logits`);
      for (let t = 0; t + 1 < row.length; t++) {
        const own = logits.subarray(t * model.config.vocab, (t + 1) * model.config.vocab);
        const top = own.reduce((a, b) => Math.max(a, b));
        const sum = own.reduce((total, value) => total + Math.exp(value - top), 0);
        expect(Math.abs(logprobs[r]![t]! - (own[row[t + 1]!]! - top - Math.log(sum)))).toBeLessThan(1e-4);
      }
    }
    trainer.close();
    model.releaseAdapter(version);
  });

  it("has the gradients of an adapter and takes the same three steps", async () => {
    const trainer = await model.trainAdapter(adapter.spec, { seed: 1n, tensors: adapter.tensors });
    for (let step = 0; step < 3; step++) {
      const loss = await forwardBackward(trainer, rows);
      expect(Math.abs(loss - facts.adamw.loss[step]!)).toBeLessThan(1e-4);
      if (step === 0) {
        for (const [tensor, { data }] of await trainer.read("gradient")) {
          expect(relativeError(data, floats(`lora_grad.${tensor}`)), tensor).toBeLessThan(1e-3);
        }
      }
      const { gradNorm } = await trainer.optimStep(OPTIMIZER);
      expect(Math.abs(gradNorm / facts.adamw.grad_norm[step]! - 1)).toBeLessThan(1e-3);
    }
    expect(trainer.steps).toBe(3);
    const after = await trainer.read("value");
    expect([...after.keys()].sort()).toEqual(names("lora_after3.").sort());
    for (const [tensor, { data }] of after) {
      const start = adapter.tensors.get(tensor)!.data;
      const wanted = floats(`lora_after3.${tensor}`);
      const change = (values: Float32Array) => values.map((value, i) => value - start[i]!);
      expect(relativeError(change(data), change(wanted)), tensor).toBeLessThan(1e-3);
    }
    expect(Math.abs(meanLoss(await trainer.evaluate(rows)) - facts.adamw.loss_after)).toBeLessThan(1e-4);
    trainer.close();
  });

  it.runIf(trainsAdaptersAlone(name))("says that its weights are not trained", async () => {
    await expect(model.trainWeights()).rejects.toMatchObject({ code: "invalid_argument", param: "config" });
  });

  it.skipIf(isGpu || trainsAdaptersAlone(name))("has the gradients of all weights", async () => {
    const trainer = await model.trainWeights();
    expect(Math.abs((await forwardBackward(trainer, rows)) - facts.loss)).toBeLessThan(1e-5 * Math.max(1, facts.loss));
    const gradient = await trainer.read("gradient");
    expect([...gradient.keys()].sort()).toEqual(names("grad.").sort());
    for (const [tensor, { data }] of gradient) {
      expect(relativeError(data, floats(`grad.${tensor}`)), tensor).toBeLessThan(1e-3);
    }
    trainer.close();
  });

  it("in bfloat16 is about as far from float32 as PyTorch", async () => {
    const rounded = await loadCase(name, { dtype: "bfloat16" });
    const trainer = await rounded.trainAdapter(adapter.spec, { seed: 1n });
    const { logprobs } = await trainer.evaluate(rows, { adapter: 0 });
    const errors = tokens.flatMap((_, r) =>
      [...floats(`row${r}.logprobs`)].map((wanted, t) => logprobs[r]![t]! - wanted),
    );
    const rms = Math.sqrt(errors.reduce((sum, error) => sum + error ** 2, 0) / errors.length);
    expect(rms).toBeLessThan(1.1 * facts.bfloat16.logprobs_rms_error);
    rounded.close();
  });
});
