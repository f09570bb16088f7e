// A tokenizer's normalizer and pre-tokenizer, written so that Hugging Face's JavaScript library, which encodes here, does what
// its Rust library does, which defines the ids.

import { isObject, type Json, type JsonObject } from "./tokenizerFolder.js";

/** GPT-2's split, which byte-level pre-tokenizers make unless told otherwise. */
export const BYTE_LEVEL_SPLIT = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

const PUNCTUATION = "[\\p{P}!-/:-@\\[-`{-~]";
/** What BERT sets spaces around; the library does so where a character is one UTF-16 unit. */
const CHINESE =
  "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2CEAF}\\x{F900}-\\x{FAFF}\\x{2F800}-\\x{2FA1F}]";

export function withExplicitSteps(tokenizer: JsonObject): JsonObject {
  const { normalizer, pre_tokenizer } = tokenizer;
  // Without a normalizer, the library would cut out the added tokens that are sought behind it together with the others.
  const normalizerOrNone = explicitNormalizer(normalizer) ?? { type: "Sequence", normalizers: [] };
  return { ...tokenizer, normalizer: normalizerOrNone, pre_tokenizer: explicitSplit(pre_tokenizer) };
}

/**
 * JavaScript's `toLowerCase` looks at the end of a word for a sigma, Rust's of one character does not; its `trim` and its
 * replacement texts are others too.
 */
function explicitNormalizer(step: Json | undefined): Json {
  if (!isObject(step)) return null;
  switch (step.type) {
    case "Sequence":
      return { ...step, normalizers: members(step.normalizers).map(explicitNormalizer) };
    case "Lowercase":
      return normalizers(replacing({ String: "Σ" }, "σ"), step);
    case "Strip":
      return normalizers(
        step.strip_left === true ? replacing({ Regex: "\\A\\s+" }, "") : null,
        step.strip_right === true ? replacing({ Regex: "\\s+\\z" }, "") : null,
      );
    case "Replace":
      return typeof step.content === "string" ? { ...step, content: step.content.replaceAll("$", "$$$$") } : step;
    case "BertNormalizer":
      return normalizers(
        step.lowercase === true ? replacing({ String: "Σ" }, "σ") : null,
        step.handle_chinese_chars === true ? replacing({ Regex: CHINESE }, " $& ") : null,
        { ...step, handle_chinese_chars: false },
      );
    default:
      return step;
  }
}

/**
 * The library's own splits are others: JavaScript's `\s` takes U+FEFF for white space and U+0085 not, which in a written regex
 * is translated; its digits are ASCII's, where Hugging Face's are all numeric characters; it takes neighbouring
 * punctuation for one piece, and does not split at Metaspace's marks.
 */
function explicitSplit(step: Json | undefined): Json {
  if (!isObject(step)) return null;
  switch (step.type) {
    case "Sequence":
      return { ...step, pretokenizers: members(step.pretokenizers).map(explicitSplit) };
    case "Digits":
      return splitAt(step.individual_digits === true ? "\\p{N}" : "\\p{N}+");
    case "ByteLevel":
      if (step.use_regex === false) return step;
      return pretokenizers(
        // The split must see the prefix space.
        ...(step.add_prefix_space === true ? [replacing({ Regex: "\\A[^ ]" }, " $&")] : []),
        splitAt(BYTE_LEVEL_SPLIT),
        { ...step, add_prefix_space: false, use_regex: false },
      );
    case "Punctuation":
      if (step.behavior === "Removed") return splitAt(PUNCTUATION, "Removed");
      return splitAt(step.behavior === "Contiguous" ? `${PUNCTUATION}+` : PUNCTUATION);
    case "WhitespaceSplit":
      return splitAt("\\s+", "Removed");
    case "BertPreTokenizer":
      return pretokenizers(splitAt("\\s+", "Removed"), splitAt(PUNCTUATION));
    case "FixedLength":
      return splitAt(`[\\s\\S]{1,${Number(step.length)}}`);
    case "Metaspace": {
      if (step.split === false) return step;
      const mark = typeof step.replacement === "string" ? step.replacement : "▁";
      const character = `\\x{${mark.codePointAt(0)!.toString(16)}}`;
      return pretokenizers(step, splitAt(`${character}[^${character}]*`));
    }
    case "Split":
      // With an `invert` that is false, the library keeps a text that is to be removed.
      return step.invert === true ? step : { ...step, invert: null };
    default:
      return step;
  }
}

function members(list: Json | undefined): Json[] {
  return Array.isArray(list) ? list : [];
}

function normalizers(...steps: (JsonObject | null)[]): JsonObject {
  return { type: "Sequence", normalizers: steps.filter((step) => step !== null) };
}

function pretokenizers(...steps: JsonObject[]): JsonObject {
  return { type: "Sequence", pretokenizers: steps };
}

/** `content` as JavaScript takes it: `$&` is what was found. */
function replacing(pattern: JsonObject, content: string): JsonObject {
  return { type: "Replace", pattern, content };
}

function splitAt(expression: string, behavior = "Isolated"): JsonObject {
  return { type: "Split", pattern: { Regex: expression }, behavior, invert: false };
}
