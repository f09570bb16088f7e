// A training host around the embedded model, for tests that watch jobs without an engine.

import { fileURLToPath } from "node:url";
import { fileRights } from "../../src/engine/core/access.js";
import { openRuntime } from "../../src/runtime/runtime.js";
import type { Store } from "../../src/store/store.js";
import { loadTokenizer } from "../../src/text/index.js";
import { writeInitialCheckpoint } from "../../src/training/checkpointFiles.js";
import type { TrainingHost } from "../../src/training/host.js";
import { OPTIMIZER } from "../../src/training/optimizer.js";
import { Trainers } from "../../src/training/trainers.js";
import type { TrainingBase } from "../../src/training/trainingBase.js";
import type { Logger } from "../../src/types/logger.js";
import type { Trajectory, TrajectoryGroup } from "../../src/types/trajectories.js";
import { openWeightFolder } from "../../src/weights/index.js";
import { DEVICE } from "../native/device.js";

export const modelFolder = fileURLToPath(new URL("../../models/tiny", import.meta.url));

export async function loadTestBase(folder = modelFolder): Promise<TrainingBase> {
  const { config, tensors, content } = await openWeightFolder(folder);
  const device = await openRuntime({ device: DEVICE }).load({ config, tensors, dtype: "bfloat16", kvPages: 8 });
  return {
    id: "anneal/tiny",
    hash: await content.hash(),
    contextLength: config.maxPositions,
    device,
    tokenizer: await loadTokenizer(folder),
    template: null,
    generationConfig: { eos_token_id: [2, 0] },
  };
}

export const quiet: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Published versions are released at once, as a cache without room would. */
export function createHost(store: Store, base: TrainingBase, logger = quiet): TrainingHost {
  return {
    store,
    options: {
      optimizerStep: "group",
      optimizer: OPTIMIZER,
      maxTrainingJobs: 4,
      allowedHosts: [],
    },
    logger,
    fileRights: (reader) => fileRights(reader, store.home, [store.home]),
    base: async () => base,
    trainers: new Trainers(() => () => undefined),
    activationMemory: () => 2 ** 30,
    publishCheckpoint: (_modelId, _step, version) => base.device.releaseAdapter(version),
  };
}

/** Registers a model with its step 0. @returns its id. */
export async function registerModel(store: Store, base: TrainingBase, name: string): Promise<string> {
  const model = store.models.create({ entity: "local", project: "p", name, baseModel: base.id });
  const folder = store.files.temporary();
  await writeInitialCheckpoint(base, folder);
  await store.files.commitFolder(folder, store.files.checkpointFolder(model.id, 0));
  store.checkpoints.create({ modelId: model.id, step: 0 });
  return model.id;
}

/** Groups of four completions of made-up tokens with rewards 0 to 3: every group teaches. */
export function madeUpGroups(count: number, salt = 1): TrajectoryGroup[] {
  let state = salt;
  const draw = (below: number) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >>> 8) % below;
  };
  return Array.from({ length: count }, () => {
    const prompt = Array.from({ length: 24 }, () => draw(700));
    const trajectories = Array.from({ length: 4 }, (_, reward): Trajectory => {
      const ids = Array.from({ length: 8 + draw(8) }, () => draw(700));
      return {
        messages_and_choices: [
          { role: "user", content: "x" },
          {
            index: 0,
            finish_reason: "stop",
            message: { role: "assistant", content: "y" },
            prompt_token_ids: prompt,
            token_ids: ids,
            logprobs: { content: ids.map((id) => ({ token: `token_id:${id}`, logprob: -6.5 })) },
          },
        ],
        reward,
      };
    });
    return { trajectories };
  });
}
