// The thread of an encoder: tokens, runs, pooling.

import { workerData } from "node:worker_threads";
import { type OpenSession, openSession } from "../runtime/onnx/openSession.js";
import { answerTasks } from "../runtime/onnx/threadTasks.js";
import { EncoderTokenizer } from "../text/encoderTokenizer.js";
import { EncoderBatches } from "./encoderBatches.js";
import type { EncoderOptions, EncoderTasks } from "./encoderTasks.js";

const { folder, ...options } = workerData as EncoderOptions;

let opened: OpenSession;
let tokenizer: EncoderTokenizer;
let batches: EncoderBatches;

answerTasks<EncoderTasks>(
  {
    async open() {
      opened = await openSession(options);
      batches = new EncoderBatches(opened.runtime, opened.session, opened.description);
      tokenizer = await EncoderTokenizer.load(folder);
      return { classifies: batches.classifies };
    },
    async encode({ texts, pooling, normalize, maxTokens }) {
      const encoded = texts.map((text) => tokenizer.encode(text, maxTokens));
      const rows = await batches.encode(encoded, pooling);
      if (normalize) for (const row of rows) scaleToOne(row);
      return { rows, tokens: encoded.map(({ whole }) => whole) };
    },
    async close() {
      await opened?.session.release();
      return null;
    },
  },
  (kind, answer) => (kind === "encode" ? (answer as EncoderTasks["encode"]["answer"]).rows : []),
);

function scaleToOne(vector: Float32Array): void {
  let sum = 0;
  for (const value of vector) sum += value * value;
  const length = Math.sqrt(sum);
  if (length > 0) for (let i = 0; i < vector.length; i++) vector[i]! /= length;
}
