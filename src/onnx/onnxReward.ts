import type { ChatMessageParam } from "../types/chat.js";
import type { OnnxRewardModel, OnnxRewardOptions } from "../types/onnx.js";
import type { RewardClassifier } from "./rewardClassifier.js";

/**
 * A classifier in ONNX as reward model: `train(engine, { reward: onnxReward("./folder"), ... })`. The folder is opened by the first
 * call, which rejects with ModelFileError when it cannot be used, with UnavailableError without the package onnxruntime-node.
 */
export function onnxReward(folder: string, options: OnnxRewardOptions = {}): OnnxRewardModel {
  let opened: Promise<RewardClassifier> | undefined;
  // Loaded by the first call: a program that only imports the package does not pay for it.
  const open = async () => (await import("./rewardClassifier.js")).RewardClassifier.open(folder, options);
  const score = async (messages: readonly ChatMessageParam[]) => {
    opened ??= open();
    return (await opened).score(messages);
  };
  return Object.assign(score, {
    close() {
      opened?.then(
        (classifier) => classifier.close(),
        () => undefined,
      );
    },
  });
}
