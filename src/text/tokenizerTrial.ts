// A tokenizer.json is input: before this process relies on one whose normalizer or regular expressions are not known to be
// harmless, a thread that can be ended loads it and encodes what such expressions are slow on.

import { clearInterval, setInterval } from "node:timers";
import { TokenizerError } from "./errors.js";
import { BYTE_LEVEL_SPLIT } from "./explicitSteps.js";
import { TextThread } from "./textThread.js";
import { isObject, type Json, type JsonObject, type TokenizerFolder } from "./tokenizerFolder.js";
import { checkEncodingLayout } from "./tokenizerLayout.js";

/** How much longer a normalizer or decoder may make a text; SentencePiece's put one character for another. */
const MAX_GROWTH = 16;
/** On a processor: on a busy machine a thread may wait long. A tokenizer takes a fraction of a second. */
const MAX_TRIAL_SECONDS = 10;
const POLL_MILLISECONDS = 100;
/** UTF-16 units of one trial: cubic time shows, and hundreds of trials take a moment. */
const TRIAL_LENGTH = 2_048;
/** Characters whose repetitions are tried, beside those of the expressions themselves. */
const TRIAL_CHARACTERS = "aA0 \n漢.'";
const MAX_TRIAL_CHARACTERS = 14;

/** Expressions of tokenizers in wide use, each linear in what it splits. */
const KNOWN_EXPRESSIONS: ReadonlySet<string> = new Set([
  BYTE_LEVEL_SPLIT,
  ...["\\p{N}{1,3}", "\\p{N}"].map(
    (digits) =>
      `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  ),
  " ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
]);

interface Expression {
  /** Where in tokenizer.json. */
  field: string;
  source: string;
}

/** Throws TokenizerError naming the file and the field that makes texts explode or takes too long. */
export async function tryTokenizer(folder: TokenizerFolder, path: string, file: string): Promise<void> {
  checkGrowth(folder.tokenizer.normalizer, "normalizer", file);
  checkGrowth(folder.tokenizer.decoder, "decoder", file);
  const unknown = ["normalizer", "pre_tokenizer"]
    .flatMap((part) => [...expressionsIn(folder.tokenizer[part], part)])
    .filter(({ source }) => !KNOWN_EXPRESSIONS.has(source));
  if (unknown.length === 0) return;
  // What is refused without a trial has none.
  checkEncodingLayout(folder, file);
  const thread = new TextThread({ folder: path, hash: folder.hash });
  const trial = (async () => {
    for (const text of trialTexts(unknown)) await thread.encode({ text, addSpecialTokens: false, keep: null });
  })();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      if (thread.cpuSeconds() > MAX_TRIAL_SECONDS) reject(slow(unknown, file));
    }, POLL_MILLISECONDS);
  });
  try {
    await Promise.race([trial, late]);
  } catch (error) {
    if (error instanceof TokenizerError) throw error;
    const fields = unknown.map(({ field }) => `"${field}"`).join(", ");
    throw new TokenizerError(`${fields} cannot be used (${(error as Error).message})`, file, { cause: error });
  } finally {
    clearInterval(timer);
    // What is still being tried is for nobody.
    trial.catch(() => undefined);
    await thread.close();
  }
}

function slow(expressions: readonly Expression[], file: string): TokenizerError {
  const fields = expressions.map(({ field }) => `"${field}"`).join(", ");
  return new TokenizerError(
    `${fields}: a regular expression takes more than ${MAX_TRIAL_SECONDS} s for a short text`,
    file,
  );
}

/** Every `Regex` below a part of tokenizer.json. */
function* expressionsIn(value: Json | undefined, field: string): Iterable<Expression> {
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (key === "Regex" && typeof inner === "string") yield { field: `${field}.Regex`, source: inner };
    else yield* expressionsIn(inner, `${field}.${key}`);
  }
}

/** Long runs of one or two characters, ended by one that matches nothing. */
function* trialTexts(expressions: readonly Expression[]): Iterable<string> {
  const written = expressions
    .map(({ source }) => source.replace(/\\./g, "").replace(/[^\p{L}\p{N}\p{S} ]/gu, ""))
    .join("");
  const characters = [...new Set(TRIAL_CHARACTERS + written)].slice(0, MAX_TRIAL_CHARACTERS);
  for (const first of characters) {
    for (const second of characters) yield `${(first + second).repeat(TRIAL_LENGTH / 2 - 1)}\0`;
  }
}

/** Refuses steps that together make a text many times as long. */
function checkGrowth(component: Json | undefined, name: string, file: string): void {
  let growth = 1;
  const visit = (step: Json | undefined, field: string): void => {
    if (!isObject(step)) return;
    for (const [key, members] of Object.entries(step)) {
      if (Array.isArray(members))
        for (const [index, member] of members.entries()) visit(member, `${field}.${key}.${index}`);
    }
    growth *= growthOf(step);
    if (growth > MAX_GROWTH) {
      throw new TokenizerError(`"${field}" makes texts more than ${MAX_GROWTH} times as long`, file);
    }
  };
  visit(component, name);
}

function growthOf(step: JsonObject): number {
  const { type, content, prepend } = step;
  if (type === "Prepend" && typeof prepend === "string") return prepend.length > MAX_GROWTH ? prepend.length : 1;
  if (type !== "Replace" || typeof content !== "string") return 1;
  const text = isObject(step.pattern) ? step.pattern.String : undefined;
  // An expression, or an empty text, may match between any two characters.
  if (typeof text !== "string" || text === "") return 1 + content.length;
  return Math.max(1, content.length / text.length);
}
