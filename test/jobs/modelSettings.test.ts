// A model's own adapter and optimizer: recorded with it, and used by its jobs and sessions whatever the engine's are.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Engine } from "../../src/index.js";
import type { Model, ModelCreateParams } from "../../src/types/models.js";
import { readAdapterFolder } from "../../src/weights/index.js";
import { madeUpGroups } from "./jobHost.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "settings-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const create = (engine: Engine, name: string, params: Partial<ModelCreateParams> = {}) =>
  engine.models.create({ project: "p", name, base_model: "anneal/tiny", ...params });

const adapterOf = (engine: Engine, { id }: Model, step: number) =>
  readAdapterFolder(engine.core.store.files.checkpointFolder(id, step));

async function train(engine: Engine, { id }: Model) {
  const job = await engine.trainingJobs.create({ model_id: id, trajectory_groups: madeUpGroups(2) });
  await engine.trainingJobs.wait(job.id);
}

describe("a model", () => {
  it("has the adapter it was made with, and hands it on to its checkpoints", async () => {
    await using engine = await Engine.open({ adapter: { rank: 4 } });
    const own = await create(engine, "own", { adapter: { rank: 3, alpha: 6, targets: ["q_proj", "v_proj"] } });
    const partly = await create(engine, "partly", { adapter: { alpha: 5, rank: null } });
    expect(own.adapter).toEqual({ rank: 3, alpha: 6, targets: ["q_proj", "v_proj"] });
    expect(await engine.models.retrieve(partly.id)).toMatchObject({ adapter: { rank: 4, alpha: 5 } });
    await train(engine, own);
    for (const step of [0, 1]) {
      const { spec, tensors } = await adapterOf(engine, own, step);
      expect(spec).toMatchObject({ rank: 3, alpha: 6, targets: ["q_proj", "v_proj"] });
      expect([...tensors.keys()].every((name) => /\.(q|v)_proj\./.test(name))).toBe(true);
    }
    expect((await adapterOf(engine, partly, 0)).spec).toMatchObject({ rank: 4, alpha: 5 });
  });

  it("keeps its optimizer in the home, for jobs and sessions", async () => {
    const optimizer = { rl: { weight_decay: 0, beta1: 0.5, max_grad_norm: 1 } };
    const settings = { beta1: 0.5, weightDecay: 0, maxGradNorm: 1 };
    const made = await Engine.open({ home });
    await create(made, "own", { optimizer });
    await made.close();
    await using engine = await Engine.open({ home });
    const own = await create(engine, "own", { return_existing: true });
    const plain = await create(engine, "plain");
    expect(own.optimizer!.rl).toMatchObject({ ...optimizer.rl, beta2: 0.99 });
    expect(plain.optimizer!.rl).toMatchObject({ weight_decay: 0.1, beta1: 0.9, max_grad_norm: 0.1 });
    for (const model of [own, plain]) await train(engine, model);
    const values = async (model: Model, step: number) => (await adapterOf(engine, model, step)).tensors;
    expect(await values(own, 1)).not.toEqual(await values(plain, 1));

    const rows = [{ tokens: [5, 6, 7, 8], trained: [0, 1, 1, 1] }];
    const stepped = async (model: Model, given: object) => {
      await using session = await engine.training.open(model);
      await session.forwardBackward(rows, { loss: "cross_entropy" });
      await session.optimStep({ learningRate: 1e-2, ...given });
      return (await session.logprobs(rows)).logprobs;
    };
    const [first, second] = [await create(engine, "first", { optimizer }), await create(engine, "second")];
    expect(await stepped(first, {})).toEqual(await stepped(second, settings));
    expect(await stepped(second, {})).not.toEqual(await stepped(second, settings));
  });

  it("is refused with settings that cannot be", async () => {
    await using engine = await Engine.open({});
    for (const [param, params] of [
      ["adapter.rank", { adapter: { rank: 0 } }],
      ["adapter.targets.0", { adapter: { targets: ["lm_head"] } }],
      ["adapter.r", { adapter: { r: 8 } }],
      ["adapter.alpha", { adapter: { alpha: 1e7 } }],
      ["optimizer.sft.beta1", { optimizer: { sft: { beta1: 1 } } }],
      ["optimizer.rl.beta2", { optimizer: { rl: { beta2: 0.99999999 } } }],
      ["optimizer.rl.eps", { optimizer: { rl: { eps: 2 } } }],
      ["optimizer.rl.weight_decay", { optimizer: { rl: { weight_decay: 1001 } } }],
      ["optimizer.sft.max_grad_norm", { optimizer: { sft: { max_grad_norm: 1e31 } } }],
    ] as [string, Partial<ModelCreateParams>][]) {
      await expect(create(engine, "x", params)).rejects.toMatchObject({ status: 422, param });
    }
  });
});
