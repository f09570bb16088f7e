import type { DecoderLayout, GraphDescription } from "./decoderLayout.js";
import type { DecoderRow } from "./decoderSteps.js";

/** What the thread of a decoder does. */
export type DecoderTasks = {
  open: { task: object; answer: GraphDescription };
  /** Comes before any step; `layout` is that of the graph. */
  pages: { task: { layout: DecoderLayout; vocab: number; count: number }; answer: null };
  copy: { task: { from: Int32Array; to: Int32Array }; answer: null };
  step: { task: { rows: DecoderRow[] }; answer: { logits: Float32Array[] } };
  close: { task: object; answer: null };
};
