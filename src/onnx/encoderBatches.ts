// Runs of an encoder graph: texts of like length together, padded on the right, and what is read out of them.

import type { InferenceSession, Tensor } from "onnxruntime-node";
import { type GraphDescription, LayoutError } from "../runtime/onnx/decoderLayout.js";
import { longs, type OnnxRuntime, wide } from "../runtime/onnx/tensors.js";
import type { EncodedText } from "../text/encoderTokenizer.js";
import type { EncoderPooling } from "./encoderFolder.js";

/** Tokens of one run, padding included. */
const MAX_BATCH_TOKENS = 4096;

const KNOWN_INPUTS = ["input_ids", "attention_mask", "token_type_ids", "position_ids"];
/** The first that a graph has is read: classes, vectors that the graph makes itself, hidden states. */
const OUTPUTS = ["logits", "sentence_embedding", "last_hidden_state", "token_embeddings"];

export class EncoderBatches {
  private readonly output: string;
  private readonly inputs: readonly string[];

  /** @throws LayoutError for a graph with other inputs and outputs. */
  constructor(
    private readonly runtime: OnnxRuntime,
    private readonly session: InferenceSession,
    { inputs, outputs }: GraphDescription,
  ) {
    this.inputs = inputs.map(({ name }) => name);
    const unknown = this.inputs.find((name) => !KNOWN_INPUTS.includes(name));
    if (unknown !== undefined) {
      throw new LayoutError(`has the input ${unknown}; encoders take ${KNOWN_INPUTS.join(", ")}`);
    }
    const output = OUTPUTS.find((name) => outputs.some((one) => one.name === name));
    if (output === undefined) {
      throw new LayoutError(
        `has none of the outputs ${OUTPUTS.join(", ")}, but ${outputs.map(({ name }) => name).join(", ")}`,
      );
    }
    this.output = output;
  }

  get classifies(): boolean {
    return this.output === "logits";
  }

  async encode(texts: readonly EncodedText[], pooling: EncoderPooling): Promise<Float32Array[]> {
    const rows: Float32Array[] = new Array(texts.length);
    const order = texts.map((_, i) => i).sort((a, b) => texts[b]!.ids.length - texts[a]!.ids.length);
    for (let from = 0; from < order.length; ) {
      // The first is the longest.
      const size = Math.max(1, Math.floor(MAX_BATCH_TOKENS / texts[order[from]!]!.ids.length));
      const batch = order.slice(from, from + size);
      const found = await this.run(
        batch.map((i) => texts[i]!),
        pooling,
      );
      for (const [row, i] of batch.entries()) rows[i] = found[row]!;
      from += size;
    }
    return rows;
  }

  private async run(texts: readonly EncodedText[], pooling: EncoderPooling): Promise<Float32Array[]> {
    const length = texts[0]!.ids.length;
    const padded = (of: (text: EncodedText, at: number) => number) => {
      const values = new BigInt64Array(texts.length * length);
      for (const [row, text] of texts.entries()) {
        for (let at = 0; at < text.ids.length; at++) values[row * length + at] = BigInt(of(text, at));
      }
      return longs(this.runtime, values, [texts.length, length]);
    };
    const all: Record<string, () => Tensor> = {
      input_ids: () => padded(({ ids }, at) => ids[at]!),
      attention_mask: () => padded(() => 1),
      token_type_ids: () => padded(({ types }, at) => types[at]!),
      position_ids: () => padded((_, at) => at),
    };
    const outputs = await this.session.run(Object.fromEntries(this.inputs.map((name) => [name, all[name]!()])));
    const { data, dims } = outputs[this.output]!;
    const values = wide(data);
    const width = dims.at(-1)!;
    if (dims.length === 2) return texts.map((_, row) => values.slice(row * width, (row + 1) * width));
    return texts.map(({ ids }, row) => pooled(values.subarray(row * length * width), ids.length, width, pooling));
  }
}

/** Of [tokens][width], padding behind them. */
function pooled(states: Float32Array, tokens: number, width: number, pooling: EncoderPooling): Float32Array {
  if (pooling === "cls") return states.slice(0, width);
  if (pooling === "last") return states.slice((tokens - 1) * width, tokens * width);
  const sum = new Float64Array(width);
  for (let at = 0; at < tokens * width; at++) sum[at % width]! += states[at]!;
  return Float32Array.from(sum, (value) => value / tokens);
}
