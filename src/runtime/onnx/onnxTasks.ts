// What the thread of a graph is asked, and what it answers.

import type { DecoderLayout, GraphDescription } from "./decoderLayout.js";
import type { DecoderRow } from "./decoderSteps.js";

export interface OnnxThreadData {
  /** The graph. */
  file: string;
  /** One that this machine's ONNX Runtime has. */
  executionProvider: string;
  /** Of one run. */
  threads: number;
}

export interface OnnxTasks {
  open: { task: Record<never, never>; answer: GraphDescription };
  /** Comes before any step; `layout` is that of the graph. */
  pages: { task: { layout: DecoderLayout; vocab: number; count: number }; answer: null };
  copy: { task: { from: Int32Array; to: Int32Array }; answer: null };
  step: { task: { rows: DecoderRow[] }; answer: { logits: Float32Array[]; seconds: number } };
  close: { task: Record<never, never>; answer: null };
}

export type OnnxTaskKind = keyof OnnxTasks;

export interface OnnxRequest {
  id: number;
  kind: OnnxTaskKind;
  task: unknown;
}

/** Why there is no answer, in parts that can be sent. */
export interface OnnxFailure {
  kind: "missing" | "provider" | "failed";
  message: string;
}

export type OnnxReply = { id: number; answer: unknown } | { id: number; failure: OnnxFailure };
