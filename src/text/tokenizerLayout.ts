// Which tokenizer layouts give the same ids and texts as Hugging Face's library. The others are refused by name, since
// a wrong id is worse than no answer.

import { TokenizerError } from "./errors.js";
import { isObject, type Json, type JsonObject, type TokenizerFolder } from "./tokenizerFolder.js";

/** Throws TokenizerError when the folder uses a layout that would be encoded wrongly. */
export function checkEncodingLayout(folder: TokenizerFolder, file: string): void {
  const refuse = (what: string): never => {
    throw new TokenizerError(`${what} is not supported; convert the tokenizer to byte-level BPE`, file);
  };
  const type = folder.model.type ?? (folder.model.merges === undefined ? "unknown" : "BPE");
  if (type !== "BPE" && type !== "Unigram") refuse(`model type ${JSON.stringify(type)}`);
  if (type === "BPE") {
    if (folder.model.continuing_subword_prefix) refuse('"model.continuing_subword_prefix" with BPE');
    checkMerges(folder.model, file);
  }
  checkAddedTokens(folder, file);
  const removed = removedByNormalizer(folder.tokenizer.normalizer);
  for (const [index, step] of steps(folder.tokenizer.pre_tokenizer, "pretokenizers").entries()) {
    // The library takes the first piece of each word for the first of the text.
    if (step.type === "Metaspace" && step.prepend_scheme === "first" && index > 0) {
      refuse('Metaspace with the prepend_scheme "first" behind another pre-tokenizer');
    }
    if (step.type === "Punctuation" && /^Merged/.test(String(step.behavior))) {
      refuse(`punctuation with behavior ${step.behavior}`);
    }
    // The library's \w knows ASCII only.
    if (step.type === "Whitespace") refuse("a Whitespace split");
    if (step.type === "Split") checkSplit(step, removed, refuse);
  }
}

/** The library finds a token also where it is a part of a word. */
export function checkAddedTokens(folder: TokenizerFolder, file: string): void {
  const token = folder.addedTokens.find(({ singleWord }) => singleWord);
  if (token === undefined) return;
  throw new TokenizerError(`"single_word" (added token ${JSON.stringify(token.content)}) is not supported`, file);
}

/** Every merge is of two tokens into a third: texts "a b" or pairs ["a", "b"], all of one kind. */
function checkMerges(model: JsonObject, file: string): void {
  const { merges } = model;
  if (!Array.isArray(merges)) throw new TokenizerError('"model.merges" must be a list', file);
  const vocabulary = isObject(model.vocab) ? model.vocab : {};
  const asTexts = typeof merges[0] === "string";
  for (const [index, merge] of merges.entries()) {
    const where = `"model.merges" entry ${index}`;
    if (asTexts && typeof merge === "string" && merge.startsWith("#version")) continue;
    const pair = asTexts ? typeof merge === "string" && merge.split(" ") : merge;
    if (!Array.isArray(pair) || pair.length !== 2 || !pair.every((part) => typeof part === "string")) {
      throw new TokenizerError(`${where} must be ${asTexts ? 'a text "a b"' : 'a pair ["a", "b"]'}`, file);
    }
    const [left, right] = pair as [string, string];
    for (const token of [left, right, left + right]) {
      if (Object.hasOwn(vocabulary, token)) continue;
      throw new TokenizerError(`${where} needs the token ${JSON.stringify(token)}, which "model.vocab" lacks`, file);
    }
  }
}

function checkSplit(step: JsonObject, removed: Set<string>, refuse: (what: string) => never): void {
  const pattern = isObject(step.pattern) ? step.pattern : {};
  const text = pattern.String;
  // A split at a text that the normalizer has already replaced never happens, whatever its behaviour (Gemma's spaces).
  if (typeof text === "string" && removed.has(text)) return;
  const behavior = String(step.behavior);
  const inverted = step.invert === true;
  const kind = pattern.Regex === undefined ? "text" : "regex";
  if (behavior === "Isolated" && !inverted) return;
  if (behavior === "Removed") return;
  refuse(`a ${kind} split with behavior ${behavior}${inverted ? ", inverted" : ""}`);
}

/** Texts that cannot occur after the normalizer, because it replaces each of them. */
function removedByNormalizer(normalizer: Json | undefined): Set<string> {
  const removed = new Set<string>();
  for (const step of steps(normalizer, "normalizers")) {
    const text = step.type === "Replace" && isObject(step.pattern) ? step.pattern.String : undefined;
    if (typeof text === "string" && typeof step.content === "string" && !step.content.includes(text)) removed.add(text);
  }
  return removed;
}

/** A component alone, or the members of a Sequence under `key`, flattened. */
export function steps(component: Json | undefined, key: string): JsonObject[] {
  if (!isObject(component)) return [];
  if (component.type !== "Sequence") return [component];
  const members = component[key];
  return Array.isArray(members) ? members.flatMap((member) => steps(member, key)) : [];
}
