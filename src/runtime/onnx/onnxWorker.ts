// The thread in which ONNX Runtime runs one graph: a run keeps its thread busy until it has ended.

import { open } from "node:fs/promises";
import { parentPort, workerData } from "node:worker_threads";
import type { InferenceSession } from "onnxruntime-node";
import type { GraphDescription, ValueInfo } from "./decoderLayout.js";
import { DecoderSteps } from "./decoderSteps.js";
import type { OnnxFailure, OnnxReply, OnnxRequest, OnnxTaskKind, OnnxTasks, OnnxThreadData } from "./onnxTasks.js";
import type { OnnxRuntime } from "./tensors.js";

const { file, executionProvider, threads } = workerData as OnnxThreadData;

/** Operators stand before weights in a graph's file: so far they are looked for. */
const MAX_OPERATOR_BYTES = 64 * 2 ** 20;

class Failure extends Error {
  constructor(
    readonly kind: OnnxFailure["kind"],
    message: string,
  ) {
    super(message);
  }
}

let runtime: OnnxRuntime;
let session: InferenceSession;
let steps: DecoderSteps;

const handlers: { [K in OnnxTaskKind]: (task: OnnxTasks[K]["task"]) => Promise<OnnxTasks[K]["answer"]> } = {
  async open() {
    runtime = await loadRuntime();
    const known = runtime.listSupportedBackends().map(({ name }) => name);
    if (!known.includes(executionProvider)) {
      throw new Failure("provider", `has no execution provider "${executionProvider}"; there is ${known.join(", ")}`);
    }
    session = await runtime.InferenceSession.create(file, {
      executionProviders: [executionProvider],
      intraOpNumThreads: threads,
      logSeverityLevel: 3,
      // Threads that wait by spinning would take the processor from the application.
      extra: { session: { intra_op: { allow_spinning: "0" }, inter_op: { allow_spinning: "0" } } },
    });
    return description(session);
  },

  async pages({ layout, vocab, count }) {
    steps = new DecoderSteps(runtime, session, layout, vocab, count);
    return null;
  },

  async copy({ from, to }) {
    steps.copyPages(from, to);
    return null;
  },

  async step({ rows }) {
    const started = performance.now();
    const logits = await steps.step(rows);
    return { logits, seconds: (performance.now() - started) / 1000 };
  },

  async close() {
    await session?.release();
    return null;
  },
};

async function loadRuntime(): Promise<OnnxRuntime> {
  try {
    const loaded = await import("onnxruntime-node");
    // A package of the older kind: what it exports may stand below `default`.
    return "InferenceSession" in loaded ? loaded : (loaded as { default: OnnxRuntime }).default;
  } catch (error) {
    throw new Failure("missing", (error as Error).message);
  }
}

async function description({ inputMetadata, outputMetadata }: InferenceSession): Promise<GraphDescription> {
  const info = (value: InferenceSession.ValueMetadata): ValueInfo =>
    value.isTensor
      ? { name: value.name, type: value.type, shape: [...value.shape] }
      : { name: value.name, type: "no tensor", shape: [] };
  return {
    inputs: inputMetadata.map(info),
    outputs: outputMetadata.map(info),
    groupedAttention: await hasOperator("GroupQueryAttention"),
  };
}

async function hasOperator(name: string): Promise<boolean> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(
      Buffer.alloc(Math.min(MAX_OPERATOR_BYTES, (await handle.stat()).size)),
    );
    return buffer.subarray(0, bytesRead).includes(name);
  } finally {
    await handle.close();
  }
}

let queue: Promise<void> = Promise.resolve();

parentPort!.on("message", ({ id, kind, task }: OnnxRequest) => {
  queue = queue.then(async () => {
    const reply = await replyTo(id, kind, task);
    const logits = "answer" in reply && kind === "step" ? (reply.answer as { logits: Float32Array[] }).logits : [];
    parentPort!.postMessage(reply, [...logits.map(({ buffer }) => buffer as ArrayBuffer)]);
    if (kind === "close") parentPort!.close();
  });
});

async function replyTo(id: number, kind: OnnxTaskKind, task: unknown): Promise<OnnxReply> {
  try {
    return { id, answer: await handlers[kind](task as never) };
  } catch (error) {
    const failure = error instanceof Failure ? error : new Failure("failed", (error as Error).message);
    return { id, failure: { kind: failure.kind, message: failure.message } };
  }
}
