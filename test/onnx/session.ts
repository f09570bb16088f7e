// An exported decoder run by ONNX Runtime as other programs run it: one sequence, its keys and values carried along.

import { InferenceSession, Tensor } from "onnxruntime-node";

const longs = (values: readonly number[], dims: number[]) =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), dims);

export class DecoderSession {
  private constructor(readonly session: InferenceSession) {}

  static async open(file: string): Promise<DecoderSession> {
    return new DecoderSession(await InferenceSession.create(file, { logSeverityLevel: 3 }));
  }

  /** What stands before the first token. */
  empty(): Record<string, Tensor> {
    const past: Record<string, Tensor> = {};
    for (const input of this.session.inputMetadata) {
      if (!input.isTensor || !input.name.startsWith("past_key_values")) continue;
      const [, heads, , width] = input.shape;
      const data = input.type === "float16" ? new Uint16Array(0) : new Float32Array(0);
      past[input.name] = new Tensor(input.type as "float32", data as Float32Array, [
        1,
        Number(heads),
        0,
        Number(width),
      ]);
    }
    return past;
  }

  /** Logits of every token, row-major, and the past that the next call is given. `padding` tokens stand before the first. */
  async run(tokens: readonly number[], past = this.empty(), padding = 0) {
    const before = Object.values(past)[0]!.dims[2]!;
    const all = before + tokens.length;
    const hidden = (i: number) => i < padding;
    const outputs = await this.session.run({
      input_ids: longs(tokens, [1, tokens.length]),
      attention_mask: longs(
        Array.from({ length: all }, (_, i) => (hidden(i) ? 0 : 1)),
        [1, all],
      ),
      position_ids: longs(
        tokens.map((_, i) => Math.max(before + i - padding, 0)),
        [1, tokens.length],
      ),
      ...past,
    });
    const next: Record<string, Tensor> = {};
    for (const name of Object.keys(past)) next[name] = outputs[name.replace("past_key_values", "present")]!;
    return { logits: outputs.logits!.data as Float32Array, vocab: outputs.logits!.dims[2]!, past: next };
  }

  async greedy(prompt: readonly number[], count: number): Promise<number[]> {
    const tokens: number[] = [];
    let step = await this.run(prompt);
    for (;;) {
      const last = step.logits.subarray(step.logits.length - step.vocab);
      tokens.push(last.indexOf(Math.max(...last)));
      if (tokens.length === count) return tokens;
      step = await this.run(tokens.slice(-1), step.past);
    }
  }

  close(): Promise<void> {
    return this.session.release();
  }
}
