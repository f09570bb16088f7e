import { describe, expect, it } from "vitest";
import { checkGatherOptions, checkTrainOptions } from "./checkOptions.js";

const gathering = { model: "m", scenarios: [1], rollout: async () => 1, groupSize: 2 };
const model = { id: "x", entity: "e", project: "p", name: "n", base_model: "b", run_id: "r" };
const training = { ...gathering, model, steps: 1 };

describe("options of gather and train", () => {
  it("may be left out but for those that are needed", () => {
    checkGatherOptions(gathering);
    checkGatherOptions({
      ...gathering,
      scenarios: [],
      seed: 5n,
      maxExceptions: Number.POSITIVE_INFINITY,
      timeoutMs: 0,
    });
    checkTrainOptions({ ...training, steps: 0, validation: undefined, config: { learning_rate: 1e-3 } });
  });

  it.each([
    ["groupSize", { groupSize: 1.5 }],
    ["groupSize", { groupSize: 2 ** 40 }],
    ["scenarios", { scenarios: "abc" }],
    ["rollout", { rollout: 3 }],
    ["concurrency", { concurrency: 0 }],
    ["timeoutMs", { timeoutMs: -1 }],
    ["maxExceptions", { maxExceptions: Number.NaN }],
    ["seed", { seed: 0.5 }],
    ["signal", { signal: new AbortController() }],
    ["groupsize", { groupsize: 2 }],
  ])("of both: %s is named", (param, wrong) => {
    expect(() => checkGatherOptions({ ...gathering, ...wrong })).toThrow(expect.objectContaining({ param }));
    expect(() => checkTrainOptions({ ...training, ...wrong })).toThrow(expect.objectContaining({ param }));
  });

  it.each([
    ["steps", { steps: undefined }],
    ["groupSize", { groupSize: 1 }],
    ["config.entropy_coef", { config: { entropy_coef: -1 } }],
    ["config.warmup_ratio", { config: { warmup_ratio: 2 } }],
    ["model", { model: "by name" }],
    ["scenarios", { scenarios: [] }],
    ["validation", { validation: 3 }],
    ["config", { config: "fast" }],
    ["config.learning_rat", { config: { learning_rat: 1e-3 } }],
    ["config.learning_rate", { config: { learning_rate: "1e-3" } }],
    ["config.epsilon", { config: { loss_fn: "ppo", epsilon: -1 } }],
    ["groupsPerStep", { groupsPerStep: 0 }],
  ])("of train alone: %s is named", (param, wrong) => {
    expect(() => checkTrainOptions({ ...training, ...wrong })).toThrow(expect.objectContaining({ param }));
  });

  it("of train say how a model is had by its name", () => {
    const byName = () => checkTrainOptions({ ...training, model: "demo/first" });
    expect(byName).toThrow(/must be a model as models\.create gives it .*return_existing.*, got 'demo\/first'$/);
  });

  it("of train are unknown to gather", () => {
    expect(() => checkGatherOptions({ ...gathering, steps: 1 })).toThrow("there is no option steps");
  });
});
