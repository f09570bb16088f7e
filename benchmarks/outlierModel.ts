/**
 * Models of random weights that quantise as trained ones do: a few channels of activations that are tens of times larger than the
 * others, weights with heavy tails, and a head that is sure of some tokens and unsure of others.
 */
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Random } from "../models/recipe/random.js";
import { elementCount } from "../src/elementCount.js";
import { safetensorsHeader } from "../src/weights/safetensors.js";
import { shapeOf, shapeTensors } from "./modelShapes.js";

const LAYERS = 4;
const VOCAB = 4096;
/**
 * Every so manieth channel is made large by norms, and by how much; in which layers. Dettmers et al. 2022 (LLM.int8()): features up to 20 times as large
 * as others are at most seven, and first appear in about a quarter of a transformer's layers; in all of them from 6.7 billion parameters on.
 */
const LARGE_EVERY = 500;
const LARGE = 20;
const isLargeLayer = (tensor: string) => tensor.startsWith("model.layers.1.");
/** Weights in the tails, of all; and how many deviations wide these are: a kurtosis of about 5. */
const TAIL_SHARE = 0.0005;
const TAIL = 6;
/**
 * Logits of next tokens at most; deviation of all others. Gives an entropy of about 2 nats, and a margin below 0.1 nats between the two likeliest
 * tokens at every twentieth position. Llama 2 7B and Llama 3 8B have 1.76 and 1.83 nats a token on WikiText-2 (perplexities of
 * 5.80 and 6.23 in llama.cpp's tools/perplexity/README.md), smaller models more.
 */
const SUREST = 25;
const SPREAD = 2.5;

/** Widths of a published shape, with fewer layers and tokens. Written into `folder`, in bfloat16; returns its path. */
export function outlierFolder(folder: string, name: string): string {
  const path = join(folder, `${name}-outliers`);
  mkdirSync(path, { recursive: true });
  const random = new Random(7);
  const shape = { ...shapeOf(name), num_hidden_layers: LAYERS, vocab_size: VOCAB, tie_word_embeddings: false };
  const list = shapeTensors(shape);
  const large = Array.from({ length: shape.hidden_size }, (_, i) => i % LARGE_EVERY === 37);
  const handle = openSync(join(path, "model.safetensors"), "w");
  writeSync(
    handle,
    safetensorsHeader(
      list.map(([tensor, size]) => ({ name: tensor, shape: size, dtype: "BF16", bytes: 2 * elementCount(size) })),
    ),
  );
  let embedding = new Float32Array();
  for (const [tensor, size] of list) {
    const values = new Float32Array(elementCount(size));
    const columns = size[1];
    if (columns === undefined) {
      const isLarge = size[0] === shape.hidden_size && isLargeLayer(tensor);
      for (let i = 0; i < values.length; i++)
        values[i] = Math.exp(0.3 * normal(random)) * (isLarge && large[i] ? LARGE : 1);
    } else if (tensor === "lm_head.weight") {
      // The next token is the one after: as surely as the token's draw says.
      for (let row = 0; row < VOCAB; row++) {
        const sureness = (SUREST * random.next()) / Math.sqrt(columns / 2);
        for (let i = 0; i < columns; i++) {
          values[row * columns + i] =
            (sureness * embedding[((row + VOCAB - 1) % VOCAB) * columns + i]! + SPREAD * normal(random)) /
            Math.sqrt(columns);
        }
      }
    } else {
      // Large channels of activations meet smaller weights, as training leaves them.
      const meetsLarge = columns === shape.hidden_size && isLargeLayer(tensor);
      const isOutput = /(o_proj|down_proj)/.test(tensor);
      const deviation =
        tensor === "model.embed_tokens.weight" ? 1 : (isOutput ? 1 / Math.sqrt(2 * LAYERS) : 1) / Math.sqrt(columns);
      for (let i = 0; i < values.length; i++) {
        const wide = random.chance(TAIL_SHARE) ? TAIL : 1;
        values[i] = deviation * wide * normal(random) * (meetsLarge && large[i % columns] ? 1 / LARGE : 1);
      }
      if (tensor === "model.embed_tokens.weight") embedding = values;
    }
    writeSync(handle, new Uint8Array(Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16).buffer));
  }
  closeSync(handle);
  writeFileSync(join(path, "config.json"), `${JSON.stringify(shape, null, 1)}\n`);
  return path;
}

/** Nearly normal, of deviation 1: a sum of four even draws. */
function normal(random: Random): number {
  return (random.next() + random.next() + random.next() + random.next() - 2) * Math.sqrt(3);
}
