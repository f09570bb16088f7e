// ONNX Runtime and a graph in it, in the thread that runs it.

import type { InferenceSession } from "onnxruntime-node";
import type { GraphDescription, ValueInfo } from "./decoderLayout.js";
import { graphMentions } from "./graphFile.js";
import type { OnnxRuntime } from "./tensors.js";
import { TaskError } from "./threadTasks.js";

export interface SessionOptions {
  /** The graph. */
  file: string;
  /** One that this machine's ONNX Runtime has. */
  executionProvider: string;
  /** Of one run. */
  threads: number;
}

export interface OpenSession {
  runtime: OnnxRuntime;
  session: InferenceSession;
  description: GraphDescription;
}

/** @throws TaskError without onnxruntime-node, or without the execution provider in it. */
export async function openSession({ file, executionProvider, threads }: SessionOptions): Promise<OpenSession> {
  const runtime = await loadRuntime();
  const known = runtime.listSupportedBackends().map(({ name }) => name);
  if (!known.includes(executionProvider)) {
    throw new TaskError("provider", `has no execution provider "${executionProvider}"; there is ${known.join(", ")}`);
  }
  const session = await runtime.InferenceSession.create(file, {
    executionProviders: [executionProvider],
    intraOpNumThreads: threads,
    logSeverityLevel: 3,
    // Threads that wait by spinning would take the processor from the application.
    extra: { session: { intra_op: { allow_spinning: "0" }, inter_op: { allow_spinning: "0" } } },
  });
  const { inputMetadata, outputMetadata } = session;
  const groupedAttention = await graphMentions(file, "GroupQueryAttention");
  return {
    runtime,
    session,
    description: { inputs: inputMetadata.map(info), outputs: outputMetadata.map(info), groupedAttention },
  };
}

async function loadRuntime(): Promise<OnnxRuntime> {
  try {
    const loaded = await import("onnxruntime-node");
    // A package of the older kind: what it exports may stand below `default`.
    return "InferenceSession" in loaded ? loaded : (loaded as { default: OnnxRuntime }).default;
  } catch (error) {
    throw new TaskError("missing", (error as Error).message);
  }
}

function info(value: InferenceSession.ValueMetadata): ValueInfo {
  return value.isTensor
    ? { name: value.name, type: value.type, shape: [...value.shape] }
    : { name: value.name, type: "no tensor", shape: [] };
}
