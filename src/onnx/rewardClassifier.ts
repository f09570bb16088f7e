// A classifier that scores conversations: what of them it reads, and which of its classes is the reward. Conversations that wait for it
// together are classified together.

import { setImmediate } from "node:timers";
import { ModelFileError } from "../errors.js";
import type { EncoderText } from "../text/encoderTokenizer.js";
import { contentText } from "../text/templateMessages.js";
import type { ChatMessageParam } from "../types/chat.js";
import type { OnnxRewardOptions } from "../types/onnx.js";
import { OnnxEncoder } from "./onnxEncoder.js";

interface Waiting {
  text: EncoderText;
  resolve(logits: Float32Array): void;
  reject(error: unknown): void;
}

export class RewardClassifier {
  private readonly waiting: Waiting[] = [];
  private isRunning = false;

  private constructor(
    private readonly encoder: OnnxEncoder,
    /** Index of the class. */
    private readonly label: number,
    private readonly input: NonNullable<OnnxRewardOptions["input"]>,
  ) {}

  /** @throws ModelFileError when the folder has no classes, or none of that name. */
  static async open(
    folder: string,
    { label, input = "reply", ...settings }: OnnxRewardOptions,
  ): Promise<RewardClassifier> {
    const encoder = await OnnxEncoder.open(folder, settings);
    try {
      return new RewardClassifier(encoder, labelIndex(encoder, label), input);
    } catch (error) {
      encoder.close();
      throw error;
    }
  }

  async score(messages: readonly ChatMessageParam[]): Promise<number> {
    const { input } = this;
    const text = typeof input === "function" ? input(messages) : readFrom(messages, input);
    const logits = await new Promise<Float32Array>((resolve, reject) => {
      this.waiting.push({ text, resolve, reject });
      if (!this.isRunning) void this.run();
    });
    return logits.length === 1 ? logits[0]! : probability(logits, this.label);
  }

  close(): void {
    this.encoder.close();
  }

  /** Until none waits. */
  private async run(): Promise<void> {
    this.isRunning = true;
    // Replies that end in the same turn of the event loop are scored by the same run.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.waiting.length > 0) {
      const batch = this.waiting.splice(0);
      try {
        const rows = await this.encoder.classify(batch.map(({ text }) => text));
        for (const [i, { resolve }] of batch.entries()) resolve(rows[i]!);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.isRunning = false;
  }
}

function labelIndex({ folder, classifies }: OnnxEncoder, label: string | undefined): number {
  if (!classifies) throw new ModelFileError(folder.file, "gives vectors, no classes that could be a reward");
  const { labels } = folder;
  if (label === undefined && labels.length <= 1) return 0;
  const at = label === undefined ? -1 : labels.indexOf(label);
  if (at >= 0) return at;
  const asked = label === undefined ? "has several classes" : `has no class "${label}"`;
  throw new ModelFileError(folder.config.file, `${asked}; there is ${labels.join(", ")}`, {
    param: "label",
    hint: "name the one whose probability is the reward with `label`",
  });
}

function readFrom(messages: readonly ChatMessageParam[], input: "reply" | "pair"): string | [string, string] {
  const last = (role: string) => {
    const content = messages.findLast((message) => message.role === role)?.content;
    return content == null ? "" : contentText(content, "messages");
  };
  return input === "reply" ? last("assistant") : [last("user"), last("assistant")];
}

function probability(logits: Float32Array, at: number): number {
  const most = Math.max(...logits);
  const shares = Array.from(logits, (logit) => Math.exp(logit - most));
  return shares[at]! / shares.reduce((sum, share) => sum + share, 0);
}
