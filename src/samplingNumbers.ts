// The numbers of a request that its tokens are drawn by. To add one: an entry here, which makes it a field of requests, of model
// folders and of what training is told; its parameter in native/sampling/sampling_state.h (`kSamplingNumbers`); its arithmetic in
// native/backends/cpu/sampler.cpp (and whether it changes logits before them in `edits_logits`); the same for GPUs in
// native/backends/vulkan. `npm run generate` then writes the public types and the reference anew.

interface SamplingNumber {
  /** Where it changes nothing. */
  neutral: number;
  isWhole?: boolean;
  min?: number;
  /** Lower bound that is out of range itself. */
  above?: number;
  max?: number;
  /** Bounds of a model folder's generation_config.json; absent: folders do not set it. */
  folder?: readonly [min: number, max: number];
  /** What it does, for documents. */
  meaning: string;
}

/** By their names on the wire; in order of what is told of those that are not neutral. */
export const SAMPLING_NUMBERS = {
  temperature: {
    neutral: 1,
    min: 0,
    folder: [0, Number.MAX_VALUE],
    meaning: "What logits are divided by; 0 is greedy: the likeliest token.",
  },
  top_p: {
    neutral: 1,
    above: 0,
    max: 1,
    folder: [0, 1],
    meaning: "Only the likeliest tokens that together have this probability are drawn; 1: all.",
  },
  top_k: {
    neutral: 0,
    isWhole: true,
    min: -1,
    folder: [-1, Number.MAX_SAFE_INTEGER],
    meaning: "Only so many of the likeliest tokens are drawn; 0 and -1: all.",
  },
  min_p: {
    neutral: 0,
    min: 0,
    max: 1,
    folder: [0, 1],
    meaning: "Tokens less likely than this times the likeliest are not drawn; 0: all are.",
  },
  repetition_penalty: {
    neutral: 1,
    above: 0,
    folder: [1e-6, 1e6],
    meaning: "Divides positive and multiplies negative logits of tokens that prompt or reply have already.",
  },
  frequency_penalty: {
    neutral: 0,
    min: -2,
    max: 2,
    meaning: "Taken from a token's logit for every time that the reply has it already.",
  },
  presence_penalty: {
    neutral: 0,
    min: -2,
    max: 2,
    meaning: "Taken from a token's logit when the reply has it already.",
  },
} as const satisfies Record<string, SamplingNumber>;

/** A number's name on the wire. */
export type SamplingName = keyof typeof SAMPLING_NUMBERS;

type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S;

/** All of them, by the names that the core knows. */
export type SamplingNumbers = { [Name in SamplingName as CamelCase<Name>]: number };

/** Every number: its name on the wire, its name in the core, and what is said of it. */
export const samplingNumbers = Object.entries(SAMPLING_NUMBERS).map(([name, number]) => ({
  name: name as SamplingName,
  key: name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()) as keyof SamplingNumbers,
  ...(number as SamplingNumber),
}));

/** Numbers that leave the distribution as it is, by their names on the wire. */
export const NEUTRAL_FIELDS = Object.fromEntries(samplingNumbers.map(({ name, neutral }) => [name, neutral])) as Record<
  SamplingName,
  number
>;

/** The same by the names that the core knows. */
export const NEUTRAL_NUMBERS = Object.fromEntries(
  samplingNumbers.map(({ key, neutral }) => [key, neutral]),
) as unknown as SamplingNumbers;
