// The tokenizer in the metadata of a GGUF file, as the tokenizer.json and tokenizer_config.json that it came from.

import { DEPTH_MESSAGE, isDeep } from "../valueDepth.js";
import { GgufFields } from "./ggufFields.js";
import type { GgufFile } from "./ggufFile.js";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** Kinds of tokens. */
export const TOKEN_KINDS = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 };
const { unknown: UNKNOWN, control: CONTROL, userDefined: USER_DEFINED, unused: UNUSED } = TOKEN_KINDS;

/** The whole tokenizer.json, of one that the other keys cannot tell. */
export const WHOLE_TOKENIZER = "tokenizer.huggingface.json";

interface Vocabulary {
  fields: GgufFields;
  tokens: string[];
  /** Kind of every token. */
  types: number[];
}

/** @throws ModelFileError naming the key at fault, also for kinds of tokenizers that are not known. */
export function ggufTokenizer(gguf: GgufFile): { tokenizer: JsonObject; config: JsonObject } {
  const fields = new GgufFields(gguf);
  const tokens = list(fields, "tokenizer.ggml.tokens", "string");
  if (tokens.length === 0) fields.fail("tokenizer.ggml.tokens", "is empty");
  const types = optionalList(fields, "tokenizer.ggml.token_type", tokens.length) ?? tokens.map(() => 1);
  const vocabulary = { fields, tokens, types };
  const model = fields.string("tokenizer.ggml.model");
  const special = namedTokens(vocabulary);
  const isBytePair = model === "gpt2";
  if (!isBytePair && model !== "llama" && model !== "gemma4") {
    fields.fail("tokenizer.ggml.model", `is "${model}"; gpt2 (BPE), llama and gemma4 (SentencePiece) are known`);
  }
  const whole = wholeTokenizer(fields);
  const config = { ...special, clean_up_tokenization_spaces: false, ...chatTemplates(fields) };
  if (whole) return { tokenizer: whole, config };
  const adds = (name: "bos" | "eos", fallback: boolean) =>
    fields.boolean(`tokenizer.ggml.add_${name}_token`) ?? fallback;
  const parts = isBytePair ? bytePairs(vocabulary) : sentencePiece(vocabulary, model === "gemma4");
  const bos = adds("bos", !isBytePair) ? special.bos_token : undefined;
  const eos = adds("eos", false) ? special.eos_token : undefined;
  return {
    tokenizer: {
      version: "1.0",
      added_tokens: addedTokens(vocabulary),
      ...parts,
      post_processor: postProcessor(vocabulary, bos, eos) ?? parts.post_processor ?? null,
    },
    config,
  };
}

function wholeTokenizer(fields: GgufFields): JsonObject | null {
  const text = fields.string(WHOLE_TOKENIZER);
  if (text === undefined) return null;
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch {
    fields.fail(WHOLE_TOKENIZER, "is not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    fields.fail(WHOLE_TOKENIZER, "must hold a JSON object");
  }
  if (isDeep(value)) fields.fail(WHOLE_TOKENIZER, DEPTH_MESSAGE);
  return value;
}

function list(fields: GgufFields, key: string, type: "string"): string[];
function list(fields: GgufFields, key: string, type: "number"): number[];
function list(fields: GgufFields, key: string, type: "string" | "number"): unknown[] {
  const value = fields.get(key);
  if (!Array.isArray(value)) fields.fail(key, value === undefined ? "is missing" : "must be a list");
  if (value.some((entry) => typeof entry !== type)) fields.fail(key, `must be a list of ${type}s`);
  return value;
}

function optionalList(fields: GgufFields, key: string, length: number): number[] | null {
  if (fields.get(key) === undefined) return null;
  const numbers = list(fields, key, "number");
  if (numbers.length !== length) fields.fail(key, `has ${numbers.length} entries for ${length} tokens`);
  return numbers;
}

function namedTokens(vocabulary: Vocabulary): Record<string, string> {
  const { tokens } = vocabulary;
  const fields: GgufFields = vocabulary.fields;
  const named: Record<string, string> = {};
  const keys = { bos: "bos", eos: "eos", unknown: "unk", padding: "pad", seperator: "sep" };
  for (const [key, name] of Object.entries(keys)) {
    const id = fields.number(`tokenizer.ggml.${key}_token_id`);
    if (id === undefined) continue;
    const text = tokens[id];
    if (text === undefined)
      fields.fail(`tokenizer.ggml.${key}_token_id`, `is ${id}; there are ${tokens.length} tokens`);
    named[`${name}_token`] = text;
  }
  return named;
}

/** Tokens of Phi-3 that leave blanks behind them; its others take them. No key says so: llama.cpp goes by the name. */
const PHI3_KEEPS_BLANKS = ["<unk>", "<s>", "<|endoftext|>"];

function addedTokens({ fields, tokens, types }: Vocabulary): Json[] {
  const isPhi3 = /phi-?3/i.test(fields.string("general.name") ?? "");
  return tokens.flatMap((content, id) => {
    const type = types[id];
    if ((type !== CONTROL && type !== USER_DEFINED && type !== UNKNOWN) || content === "") return [];
    const special = type !== USER_DEFINED;
    const rstrip = isPhi3 && !PHI3_KEEPS_BLANKS.includes(content);
    return [{ id, content, single_word: false, lstrip: false, rstrip, normalized: false, special }];
  });
}

function chatTemplates(fields: GgufFields): JsonObject {
  const prefix = "tokenizer.chat_template";
  const templates = [...fields.gguf.metadata.keys()].flatMap((key) => {
    if (key !== prefix && !key.startsWith(`${prefix}.`)) return [];
    return [{ name: key === prefix ? "default" : key.slice(prefix.length + 1), template: fields.string(key)! }];
  });
  return templates.length > 0 ? { chat_template: templates } : {};
}

function postProcessor({ tokens }: Vocabulary, bos: string | undefined, eos: string | undefined): Json {
  if (bos === undefined && eos === undefined) return null;
  const sequence = (id: "A" | "B", type_id: number): Json[] => [
    ...(bos === undefined ? [] : [{ SpecialToken: { id: bos, type_id } }]),
    { Sequence: { id, type_id } },
    ...(eos === undefined ? [] : [{ SpecialToken: { id: eos, type_id } }]),
  ];
  const names = [bos, eos].filter((name) => name !== undefined);
  return {
    type: "TemplateProcessing",
    single: sequence("A", 0),
    pair: [...sequence("A", 0), ...sequence("B", 1)],
    special_tokens: Object.fromEntries(
      names.map((name) => [name, { id: name, ids: [tokens.indexOf(name)], tokens: [name] }]),
    ),
  };
}

/** Texts to ids. A token that was only added is not part of what merges make. */
function texts({ fields, tokens, types }: Vocabulary, isAdded: (type: number) => boolean): Record<string, number> {
  const vocabulary = new Map<string, number>();
  for (const [id, text] of tokens.entries()) {
    if (isAdded(types[id]!)) continue;
    if (vocabulary.has(text)) {
      fields.fail("tokenizer.ggml.tokens", `has ${JSON.stringify(text)} as ${vocabulary.get(text)} and as ${id}`);
    }
    vocabulary.set(text, id);
  }
  return Object.fromEntries(vocabulary);
}

// ---- byte pairs

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const gpt4 = (digits: string) =>
  `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
/** Letters keep the marks that are written on them. */
const QWEN3_5 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
/** Words end where small letters do, so that "camelCase" is two; `ending` may follow a word. */
const cased = (ending: string, digits: string) =>
  `[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+${ending}|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*${ending}|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

const byteLevel = (use_regex: boolean): Json => ({
  type: "ByteLevel",
  add_prefix_space: false,
  trim_offsets: true,
  use_regex,
});
const split = (expression: string): Json => ({
  type: "Sequence",
  pretokenizers: [
    { type: "Split", pattern: { Regex: expression }, behavior: "Isolated", invert: false },
    byteLevel(false),
  ],
});
const DIGITS_APART: Json = {
  type: "Sequence",
  pretokenizers: [{ type: "Digits", individual_digits: true }, byteLevel(true)],
};

export interface Splitting {
  pre_tokenizer: Json;
  normalizer?: Json;
  /** A piece that is a token is not made of merges. */
  ignoreMerges?: boolean;
}

const LLAMA3: Splitting = { pre_tokenizer: split(gpt4("\\p{N}{1,3}")), ignoreMerges: true };
const QWEN2: Splitting = { pre_tokenizer: split(gpt4("\\p{N}")), normalizer: { type: "NFC" } };

/** By tokenizer.ggml.pre, as llama.cpp names them. */
export const SPLITTINGS: Readonly<Record<string, Splitting>> = {
  "gpt-2": { pre_tokenizer: byteLevel(true) },
  "llama-bpe": LLAMA3,
  llama3: LLAMA3,
  "llama-v3": LLAMA3,
  lfm2: LLAMA3,
  "smaug-bpe": { ...LLAMA3, ignoreMerges: false },
  qwen2: QWEN2,
  qwen35: { pre_tokenizer: split(QWEN3_5), normalizer: { type: "NFC" } },
  "deepseek-r1-qwen": { pre_tokenizer: QWEN2.pre_tokenizer },
  smollm: { pre_tokenizer: DIGITS_APART },
  refact: { pre_tokenizer: DIGITS_APART },
  starcoder: { pre_tokenizer: DIGITS_APART },
  tekken: { pre_tokenizer: split(cased("", "\\p{N}")), ignoreMerges: true },
  "gpt-4o": { pre_tokenizer: split(cased(`${CONTRACTIONS}?`, "\\p{N}{1,3}")) },
};

function bytePairs(vocabulary: Vocabulary): JsonObject {
  const fields: GgufFields = vocabulary.fields;
  const key = "tokenizer.ggml.pre";
  const name = fields.string(key) ?? fields.fail(key, "is missing: it says how texts are split");
  const splitting = Object.hasOwn(SPLITTINGS, name) ? SPLITTINGS[name]! : undefined;
  if (!splitting) fields.fail(key, `is "${name}"; known are ${Object.keys(SPLITTINGS).join(", ")}`);
  const merges = listedMerges(fields);
  return {
    normalizer: splitting.normalizer ?? null,
    pre_tokenizer: splitting.pre_tokenizer,
    post_processor: byteLevel(true),
    decoder: byteLevel(true),
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: splitting.ignoreMerges ?? false,
      vocab: texts(vocabulary, (type) => type === CONTROL || type === USER_DEFINED || type === UNUSED),
      merges,
    },
  };
}

function listedMerges(fields: GgufFields): [string, string][] {
  const key = "tokenizer.ggml.merges";
  return list(fields, key, "string").map((merge, i) => {
    const at = merge.indexOf(" ", 1);
    if (at < 0) fields.fail(key, `has no pair in entry ${i}: ${JSON.stringify(merge)}`);
    return [merge.slice(0, at), merge.slice(at + 1)];
  });
}

// ---- SentencePiece

/** Byte pairs of SentencePiece; `listed`: the file lists merges, of tokens that were added too. */
function sentencePiece(vocabulary: Vocabulary, listed: boolean): JsonObject {
  const { tokens, types } = vocabulary;
  const fields: GgufFields = vocabulary.fields;
  const vocab = texts(vocabulary, (type) => (type === USER_DEFINED && !listed) || type === UNUSED);
  const unknown = tokens[fields.number("tokenizer.ggml.unknown_token_id") ?? types.indexOf(UNKNOWN)];
  const isPrefixed = fields.boolean("tokenizer.ggml.add_space_prefix") ?? !listed;
  const replace: Json = { type: "Replace", pattern: { String: " " }, content: "▁" };
  return {
    normalizer: isPrefixed ? { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, replace] } : replace,
    pre_tokenizer: null,
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(isPrefixed ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
      ],
    },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: unknown ?? null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: true,
      byte_fallback: true,
      ignore_merges: false,
      vocab,
      merges: listed ? listedMerges(fields) : mergesByScore(vocabulary, vocab),
    },
  };
}

/** All pairs of tokens that make a token, the likeliest first, as transformers makes them for a fast tokenizer. */
function mergesByScore(vocabulary: Vocabulary, vocab: Record<string, number>): [string, string][] {
  const { tokens, types } = vocabulary;
  const fields: GgufFields = vocabulary.fields;
  const scores = optionalList(fields, "tokenizer.ggml.scores", tokens.length);
  if (!scores) fields.fail("tokenizer.ggml.scores", "is missing");
  const ids = new Map(Object.entries(vocab));
  const merges: { pair: [string, string]; score: number }[] = [];
  for (const [text, id] of ids) {
    if (types[id] === CONTROL) continue;
    const pairs: { pair: [string, string]; left: number; right: number }[] = [];
    const characters = [...text];
    let left = "";
    for (const character of characters.slice(0, -1)) {
      left += character;
      const right = text.slice(left.length);
      const [first, second] = [ids.get(left), ids.get(right)];
      if (first !== undefined && second !== undefined) pairs.push({ pair: [left, right], left: first, right: second });
    }
    pairs.sort((a, b) => a.left - b.left || a.right - b.right);
    for (const { pair } of pairs) merges.push({ pair, score: scores[id]! });
  }
  merges.sort((a, b) => b.score - a.score);
  return merges.map(({ pair }) => pair);
}
