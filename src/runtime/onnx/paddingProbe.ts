// Whether a graph that takes no positions makes them of the attention mask: then rows may be padded on the left, and sequences of different
// lengths are computed together.

import type { InferenceSession, Tensor } from "onnxruntime-node";
import type { CacheType, DecoderLayout } from "./decoderLayout.js";
import { type CacheValues, emptyValues } from "./keyValuePages.js";
import { halfFloats, longs, type OnnxRuntime, wide } from "./tensors.js";

/** Of the first tokens of any vocabulary; one that is repeated would not show where it stands. */
const PROBE = [1, 2, 3, 4, 5];
const PADDING = 3;
/** Share of the largest logit by which rounding may change one. */
const TOLERANCE = 1e-3;

/** Computes a token behind others, and behind the same ones with nothing before them. */
export async function padsOnTheLeft(
  runtime: OnnxRuntime,
  session: InferenceSession,
  { caches }: DecoderLayout,
): Promise<boolean> {
  const run = (tokens: readonly number[], masked: number, past: readonly Tensor[]) => {
    const total = past[0]!.dims[2]! + tokens.length;
    const mask = BigInt64Array.from({ length: total }, (_, i) => (i < masked ? 0n : 1n));
    return session.run({
      input_ids: longs(runtime, BigInt64Array.from(tokens, BigInt), [1, tokens.length]),
      attention_mask: longs(runtime, mask, [1, total]),
      ...Object.fromEntries(caches.map(({ past: name }, at) => [name, past[at]!])),
    });
  };
  const tensor = (type: CacheType, values: CacheValues, dims: number[]): Tensor =>
    new runtime.Tensor(type as "float32", halfFloats(values, true) as Float32Array, dims);
  const last = PROBE.at(-1)!;
  const first = await run(
    PROBE.slice(0, -1),
    0,
    caches.map(({ heads, width, type }) => tensor(type, emptyValues(type, 0), [1, heads, 0, width])),
  );
  const past = caches.map(({ present }) => first[present]!);
  const shifted = past.map(({ data, dims }, at) => {
    const { heads, width, type } = caches[at]!;
    const values = halfFloats(data) as CacheValues;
    const [size, padding] = [dims[2]! * width, PADDING * width];
    const moved = emptyValues(type, heads * (size + padding));
    for (let head = 0; head < heads; head++) {
      moved.set(values.subarray(head * size, (head + 1) * size), head * (size + padding) + padding);
    }
    return tensor(type, moved, [1, heads, dims[2]! + PADDING, width]);
  });
  const plain = wide((await run([last], 0, past)).logits!.data);
  const padded = wide((await run([last], PADDING, shifted)).logits!.data);
  const largest = plain.reduce((most, logit) => Math.max(most, Math.abs(logit)), 0);
  return plain.every((logit, i) => Math.abs(logit - padded[i]!) <= TOLERANCE * largest);
}
