// A tokenizer as the metadata of a GGUF file, which llama.cpp reads its vocabulary from.

import { ModelFileError } from "../errors.js";
import {
  type Json,
  type JsonObject,
  SPLITTINGS,
  type Splitting,
  TOKEN_KINDS,
  WHOLE_TOKENIZER,
} from "./ggufTokenizer.js";
import type { TypedMetadata, TypedValue } from "./writeGguf.js";

/** What a model's folder says of its tokenizer. */
export interface VocabularySource {
  /** The file it stands in, for errors. */
  file: string;
  /** tokenizer.json. */
  tokenizer: JsonObject;
  /** The text of every token, by id; without those that were added. */
  vocabulary: ReadonlyMap<number, string>;
  addedTokens: readonly { id: number; content: string; special: boolean }[];
  /** Named special tokens: `bos_token` to its text. */
  specialTokens: Readonly<Record<string, string>>;
  /** By name; the usual one is "default". */
  chatTemplates: ReadonlyMap<string, { text: string }>;
  /** Whether a text begins with the bos token. */
  addsBos: boolean;
  /** Whether it ends with the first of `endIds`. */
  addsEos: boolean;
  /** Ids of the tokens that end a reply, the usual one first. */
  endIds: readonly number[];
}

/** Ends that llama.cpp has keys for. */
const END_KEYS = ["eos", "eot", "eom"];
/** Of a token that no merge makes. */
const NO_RANK = -1e6;

/**
 * @param size rows of the embedding: the tokens that a model has
 * @param architecture what llama.cpp calls the model
 * @returns the metadata; `isNamed` is false where llama.cpp has no name for how texts are split, so that it reads texts
 * otherwise. The whole tokenizer.json is among it then, and where added tokens say more than there are keys for.
 * @throws ModelFileError where it is none of byte pairs, which is what the metadata tells
 */
export function vocabularyMetadata(
  source: VocabularySource,
  size: number,
  architecture: string,
): { metadata: TypedMetadata; isNamed: boolean } {
  const model = source.tokenizer.model as JsonObject;
  if (model.type !== undefined && model.type !== "BPE") {
    throw new ModelFileError(source.file, `is of the kind ${JSON.stringify(model.type)}; byte pairs go into GGUF`, {
      param: "model.type",
    });
  }
  const isSentencePiece = model.byte_fallback === true;
  // Its pieces are of SentencePiece, and its merges are listed as those of others.
  const listsMerges = architecture === "gemma4" && isSentencePiece;
  const merges = ((model.merges ?? []) as (string | string[])[]).map((merge) =>
    Array.isArray(merge) ? merge.join(" ") : merge,
  );
  const texts = new Map(source.vocabulary);
  for (const { id, content } of source.addedTokens) texts.set(id, content);
  const tokens = Array.from({ length: size }, (_, id) => texts.get(id) ?? `[PAD${id}]`);
  const unknown = model.unk_token as string | null | undefined;
  const added = new Map(source.addedTokens.map((token) => [token.id, token]));
  const kinds = tokens.map((text, id) => {
    if (!texts.has(id)) return TOKEN_KINDS.unused;
    if (text === unknown) return TOKEN_KINDS.unknown;
    if (isSentencePiece && /^<0x[\dA-F]{2}>$/.test(text)) return TOKEN_KINDS.byte;
    const special = added.get(id)?.special;
    return special === undefined ? TOKEN_KINDS.normal : special ? TOKEN_KINDS.control : TOKEN_KINDS.userDefined;
  });
  const splitting = isSentencePiece ? null : splittingName(source.tokenizer, model);
  const isNamed = isSentencePiece || splitting !== null;
  const metadata = new Map<string, TypedValue>([
    ["tokenizer.ggml.model", { string: listsMerges ? "gemma4" : isSentencePiece ? "llama" : "gpt2" }],
    ["tokenizer.ggml.tokens", { strings: tokens }],
    ["tokenizer.ggml.token_type", { int32s: kinds }],
    ["tokenizer.ggml.add_bos_token", { boolean: source.addsBos }],
    ["tokenizer.ggml.add_eos_token", { boolean: source.addsEos }],
  ]);
  if (isSentencePiece) {
    if (listsMerges) metadata.set("tokenizer.ggml.merges", { strings: merges });
    else metadata.set("tokenizer.ggml.scores", { float32s: scoresOf(tokens, merges) });
    metadata.set("tokenizer.ggml.add_space_prefix", { boolean: addsSpace(source.tokenizer) });
  } else {
    metadata.set("tokenizer.ggml.pre", { string: splitting ?? (model.ignore_merges ? "llama-bpe" : "gpt-2") });
    metadata.set("tokenizer.ggml.merges", { strings: merges });
  }
  if (!isNamed || hasTokenFlags(source.tokenizer))
    metadata.set(WHOLE_TOKENIZER, { string: JSON.stringify(source.tokenizer) });
  const ids = new Map(tokens.map((text, id) => [text, id]));
  const named = { bos: "bos", unk: "unknown", pad: "padding", sep: "seperator" };
  for (const [name, key] of Object.entries(named)) {
    const id = ids.get(source.specialTokens[`${name}_token`] ?? (name === "unk" ? (unknown ?? "") : ""));
    if (id !== undefined) metadata.set(`tokenizer.ggml.${key}_token_id`, { uint32: id });
  }
  for (const [i, key] of END_KEYS.entries()) {
    const id = source.endIds[i];
    if (id !== undefined) metadata.set(`tokenizer.ggml.${key}_token_id`, { uint32: id });
  }
  for (const [name, { text }] of source.chatTemplates) {
    metadata.set(name === "default" ? "tokenizer.chat_template" : `tokenizer.chat_template.${name}`, { string: text });
  }
  return { metadata, isNamed };
}

/** SentencePiece merges what makes the token of the highest score: the first merge has it. */
function scoresOf(tokens: readonly string[], merges: readonly string[]): number[] {
  const ranks = new Map<string, number>();
  for (const [rank, merge] of merges.entries()) {
    const at = merge.indexOf(" ", 1);
    const made = merge.slice(0, at) + merge.slice(at + 1);
    if (!ranks.has(made)) ranks.set(made, -rank);
  }
  return tokens.map((text) => ranks.get(text) ?? NO_RANK);
}

/** Whether added tokens take blanks beside them, as those of Phi-3 do, or are only read as whole words: no key says so. */
function hasTokenFlags({ added_tokens }: JsonObject): boolean {
  return ((added_tokens ?? []) as JsonObject[]).some((token) => token.lstrip || token.rstrip || token.single_word);
}

/** Whether a space is put before a text. */
function addsSpace({ normalizer, pre_tokenizer }: JsonObject): boolean {
  return [...steps(normalizer, "normalizers"), ...steps(pre_tokenizer, "pretokenizers")].some(
    (step) =>
      step.type === "Prepend" ||
      (step.type === "Metaspace" && step.prepend_scheme !== "never" && step.add_prefix_space !== false),
  );
}

/** What llama.cpp calls the splitting of a tokenizer; null: it has no name for it. */
function splittingName(tokenizer: JsonObject, model: JsonObject): string | null {
  const own = signature({
    pre_tokenizer: tokenizer.pre_tokenizer ?? null,
    normalizer: tokenizer.normalizer ?? null,
    ignoreMerges: model.ignore_merges === true,
  });
  return Object.entries(SPLITTINGS).find(([, known]) => signature(known) === own)?.[0] ?? null;
}

/** What decides how texts are split, the same for all ways of writing it. */
function signature({ pre_tokenizer, normalizer = null, ignoreMerges = false }: Splitting): string {
  const splits = steps(pre_tokenizer, "pretokenizers").map((step) => {
    if (step.type === "ByteLevel") return [step.type, step.use_regex ?? true, step.add_prefix_space ?? true];
    if (step.type === "Digits") return [step.type, step.individual_digits ?? false];
    if (step.type === "Split") return [step.type, step.pattern, step.behavior, step.invert ?? false];
    return [JSON.stringify(step)];
  });
  return JSON.stringify([splits, steps(normalizer, "normalizers").map((step) => step.type), ignoreMerges]);
}

function steps(component: Json | undefined, list: string): JsonObject[] {
  if (typeof component !== "object" || component === null || Array.isArray(component)) return [];
  const parts = component.type === "Sequence" ? component[list] : undefined;
  return Array.isArray(parts) ? parts.flatMap((part) => steps(part, list)) : [component];
}
