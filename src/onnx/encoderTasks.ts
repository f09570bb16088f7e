import type { SessionOptions } from "../runtime/onnx/openSession.js";
import type { EncoderText } from "../text/encoderTokenizer.js";
import type { EncoderPooling } from "./encoderFolder.js";

/** What the thread of an encoder is started with. */
export interface EncoderOptions extends SessionOptions {
  folder: string;
}

/** What the thread of an encoder does. */
export type EncoderTasks = {
  /** Whether the graph gives classes rather than hidden states. */
  open: { task: object; answer: { classifies: boolean } };
  /** A vector, or the logits of the classes, of each text; and how many tokens each has before it is cut to `maxTokens`. */
  encode: {
    task: { texts: EncoderText[]; pooling: EncoderPooling; normalize: boolean; maxTokens: number };
    answer: { rows: Float32Array[]; tokens: number[] };
  };
  close: { task: object; answer: null };
};
