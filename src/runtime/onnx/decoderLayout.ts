// What a decoder graph takes and gives, in the layout of optimum and transformers.js. Graphs of other layouts are refused by the name of
// what is strange in them.

/** An input or output: axes are numbers where the graph fixes them. */
export interface ValueInfo {
  name: string;
  type: string;
  shape: readonly (number | string)[];
}

export interface GraphDescription {
  inputs: ValueInfo[];
  outputs: ValueInfo[];
  /** The graph has GroupQueryAttention, whose rows are padded on the right. */
  groupedAttention: boolean;
}

export type CacheType = "float32" | "float16";

/** Keys or values of a layer: [sequences, heads, positions, width]. */
export interface CacheTensor {
  past: string;
  present: string;
  heads: number;
  width: number;
  type: CacheType;
}

export interface DecoderLayout {
  caches: CacheTensor[];
  hasPositions: boolean;
  /** Has `num_logits_to_keep`. */
  keepsLogits: boolean;
  /** Tokens of a row of logits; null: the graph leaves it open. */
  vocab: number | null;
  /** Where sequences of different lengths are padded to make one batch; null: the graph does not say, or they cannot be. */
  padding: "left" | "right" | null;
}

/** Bytes of an element. */
export const CACHE_BYTES: Record<CacheType, number> = { float32: 4, float16: 2 };

/** What is wrong with a graph. */
export class LayoutError extends Error {}

const PLAIN_INPUTS = ["input_ids", "attention_mask", "position_ids", "num_logits_to_keep"];

/** @throws LayoutError */
export function decoderLayout({ inputs, outputs, groupedAttention }: GraphDescription): DecoderLayout {
  const caches: CacheTensor[] = [];
  for (const input of inputs) {
    if (PLAIN_INPUTS.includes(input.name)) continue;
    if (input.name.startsWith("past_key_values.")) caches.push(cacheTensor(input, outputs));
    else throw new LayoutError(`has the input ${input.name}, which is not known; ${hintFor(input.name)}`);
  }
  const has = (name: string) => inputs.some((input) => input.name === name);
  for (const name of ["input_ids", "attention_mask"]) if (!has(name)) throw new LayoutError(`lacks the input ${name}`);
  if (caches.length === 0) {
    throw new LayoutError(
      "has no past_key_values, so that every token would cost its whole sequence; export it with past",
    );
  }
  const logits = outputs.find(({ name }) => name === "logits");
  if (!logits) throw new LayoutError("lacks the output logits");
  const vocab = logits.shape[2];
  const hasPositions = has("position_ids");
  return {
    caches,
    hasPositions,
    keepsLogits: has("num_logits_to_keep"),
    vocab: typeof vocab === "number" && vocab > 0 ? vocab : null,
    padding: groupedAttention ? "right" : hasPositions ? "left" : null,
  };
}

function cacheTensor({ name, type, shape }: ValueInfo, outputs: readonly ValueInfo[]): CacheTensor {
  const present = name.replace("past_key_values", "present");
  if (!outputs.some((output) => output.name === present)) throw new LayoutError(`lacks the output ${present}`);
  const [, heads, , width] = shape;
  if (shape.length !== 4 || !isSize(heads) || !isSize(width)) {
    throw new LayoutError(`has ${name} of shape [${shape.join(", ")}]; [sequences, heads, positions, width] is known`);
  }
  if (type !== "float32" && type !== "float16") {
    throw new LayoutError(`has ${name} of type ${type}; float32 and float16 are known`);
  }
  return { past: name, present, heads, width, type };
}

const isSize = (axis: number | string | undefined): axis is number => typeof axis === "number" && axis > 0;

function hintFor(name: string): string {
  if (name === "use_cache_branch") return "export it without merging decoders";
  if (/^past_(conv|recurrent|ssm)/.test(name)) return "layers with a state of their own cannot be rewound";
  if (name === "inputs_embeds") return "graphs that take token ids are";
  return `${PLAIN_INPUTS.join(", ")} and past_key_values.* are`;
}
