// The thread in which ONNX Runtime runs a decoder: a run keeps its thread busy until it has ended.

import { workerData } from "node:worker_threads";
import { DecoderSteps } from "./decoderSteps.js";
import type { DecoderTasks } from "./decoderTasks.js";
import { type OpenSession, openSession, type SessionOptions } from "./openSession.js";
import { padsOnTheLeft } from "./paddingProbe.js";
import { answerTasks } from "./threadTasks.js";

let opened: OpenSession;
let steps: DecoderSteps;

answerTasks<DecoderTasks>(
  {
    async open() {
      opened = await openSession(workerData as SessionOptions);
      return opened.description;
    },
    async pages({ layout: described, vocab, count }) {
      const { runtime, session } = opened;
      const padsLeft = described.padding === null && (await padsOnTheLeft(runtime, session, described));
      const layout = padsLeft ? { ...described, padding: "left" as const } : described;
      steps = new DecoderSteps(runtime, session, layout, vocab, count);
      return null;
    },
    async copy({ from, to }) {
      steps.copyPages(from, to);
      return null;
    },
    async step({ rows }) {
      return { logits: await steps.step(rows) };
    },
    async close() {
      await opened?.session.release();
      return null;
    },
  },
  (kind, answer) => (kind === "step" ? (answer as DecoderTasks["step"]["answer"]).logits : []),
);
