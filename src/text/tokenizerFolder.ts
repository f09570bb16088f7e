// What a Hugging Face folder says about its tokenizer: the files, checked and put in one shape.

import { createHash, type Hash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { ModelFileError } from "../errors.js";
import { isGguf, readGguf } from "../gguf/ggufFile.js";
import { ggufTokenizer } from "../gguf/ggufTokenizer.js";
import { readRegularFile } from "../regularFile.js";
import { DEPTH_MESSAGE, isDeep } from "../valueDepth.js";
import { TokenizerError } from "./errors.js";

export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** A token that is cut out of the text before it is split (a marker such as `<|im_end|>`). */
export interface AddedToken {
  id: number;
  content: string;
  special: boolean;
  singleWord: boolean;
}

export interface TokenizerFolder {
  /** tokenizer.json, with the tokens of the other files in its `added_tokens`. */
  tokenizer: JsonObject;
  /** tokenizer_config.json, or {} when the folder has none. */
  config: JsonObject;
  model: JsonObject;
  addedTokens: AddedToken[];
  /** The text of every token of the model by id, without the added tokens. */
  vocabulary: Map<number, string>;
  /** Named special tokens: `bos_token` to its text. */
  specialTokens: Record<string, string>;
  /** Chat templates by name; the usual one is "default". */
  chatTemplates: Map<string, TemplateSource>;
  /** Of the files that encoding depends on. */
  hash: string;
}

export interface TemplateSource {
  text: string;
  file: string;
}

/** Ids index arrays: a folder with one far outside any real vocabulary is refused instead of filling memory. */
const MAX_TOKEN_ID = 1 << 24;

/** The largest tokenizer.json of a published model is about 35 MB. */
const MAX_FILE_BYTES = 128 * 2 ** 20;

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Reads tokenizer.json, tokenizer_config.json, special_tokens_map.json and the chat template files of `folder`.
 * Throws TokenizerError naming the file.
 */
export async function readTokenizerFolder(folder: string): Promise<TokenizerFolder> {
  if (isGguf(folder)) return readGgufTokenizer(folder);
  const file = join(folder, "tokenizer.json");
  const configFile = join(folder, "tokenizer_config.json");
  const hash = createHash("sha256");
  const tokenizer = await readJsonObject(file, hash);
  if (tokenizer === undefined) throw new TokenizerError("the file is missing; a model needs its tokenizer", file);
  const config = (await readJsonObject(configFile, hash)) ?? {};
  const tokenMap = (await readJsonObject(join(folder, "special_tokens_map.json"), hash)) ?? {};
  const checked = checkTokenizer({ file, tokenizer, configFile, config, tokenMap });
  return { ...checked, chatTemplates: await readChatTemplates(folder, config), hash: hash.digest("hex") };
}

async function readGgufTokenizer(file: string): Promise<TokenizerFolder> {
  const { tokenizer, config } = ggufTokenizer(await readGguf(file));
  const checked = checkTokenizer({ file, tokenizer, configFile: file, config, tokenMap: {} });
  const chatTemplates = new Map<string, TemplateSource>();
  addTemplates(chatTemplates, config.chat_template, file);
  const hash = createHash("sha256").update(JSON.stringify([tokenizer, config]));
  return { ...checked, chatTemplates, hash: hash.digest("hex") };
}

interface TokenizerFiles {
  file: string;
  tokenizer: JsonObject;
  configFile: string;
  config: JsonObject;
  tokenMap: JsonObject;
}

function checkTokenizer(files: TokenizerFiles): Omit<TokenizerFolder, "chatTemplates" | "hash"> {
  const { file, configFile, config, tokenMap } = files;
  const tokenizer = withConfiguredFlags(files.tokenizer, config.added_tokens_decoder);
  const model = tokenizer.model;
  if (!isObject(model)) throw new TokenizerError('"model" must be an object', file);
  const vocabulary = readVocabulary(model, file);
  // special_tokens_map.json is of the time before added_tokens_decoder, and wins only without it.
  const own = namedTokens(config);
  const older = namedTokens(tokenMap);
  const specialTokens = isObject(config.added_tokens_decoder) ? { ...older, ...own } : { ...own, ...older };
  const addedTokens = readAddedTokens(tokenizer, config, file, configFile);
  checkAddedIds(addedTokens, vocabulary, file);
  markNamedTokens(addedTokens, specialTokens, vocabulary);
  return {
    tokenizer: { ...tokenizer, added_tokens: rawAddedTokens(tokenizer, config, addedTokens) },
    config,
    model,
    addedTokens,
    vocabulary,
    specialTokens,
  };
}

async function readTextFile(file: string): Promise<string | undefined> {
  try {
    return (await readRegularFile(file, MAX_FILE_BYTES)).toString("utf8");
  } catch (error) {
    if (!(error instanceof ModelFileError)) throw error;
    if ((error.cause as NodeJS.ErrnoException | undefined)?.code === "ENOENT") return undefined;
    throw new TokenizerError(error.reason, file, { cause: error });
  }
}

async function readJsonObject(file: string, hash?: Hash): Promise<JsonObject | undefined> {
  const text = await readTextFile(file);
  hash?.update(`${text?.length}\n${text}`);
  if (text === undefined) return undefined;
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    throw new TokenizerError(`is not JSON (${(error as Error).message})`, file, { cause: error });
  }
  if (!isObject(value)) throw new TokenizerError("must hold a JSON object", file);
  if (isDeep(value)) throw new TokenizerError(DEPTH_MESSAGE, file);
  return value;
}

function checkId(id: Json | undefined, where: string, file: string): number {
  if (typeof id === "number" && Number.isInteger(id) && id >= 0 && id < MAX_TOKEN_ID) return id;
  throw new TokenizerError(`${where} must be an integer in [0, ${MAX_TOKEN_ID})`, file);
}

/** BPE writes its vocabulary as text to id, Unigram as [text, score] pairs whose index is the id. */
function readVocabulary(model: JsonObject, file: string): Map<number, string> {
  const vocabulary = new Map<number, string>();
  if (Array.isArray(model.vocab)) {
    for (const [id, pair] of model.vocab.entries()) {
      const text = Array.isArray(pair) ? pair[0] : undefined;
      if (typeof text !== "string") throw new TokenizerError(`"model.vocab" entry ${id} must be [text, score]`, file);
      vocabulary.set(id, text);
    }
  } else if (isObject(model.vocab)) {
    for (const [text, id] of Object.entries(model.vocab)) {
      const where = `token ${JSON.stringify(text)} in "model.vocab"`;
      const known = checkId(id, `the id of ${where}`, file);
      if (vocabulary.has(known)) throw sameId(where, known, vocabulary.get(known)!, file);
      vocabulary.set(known, text);
    }
  } else {
    throw new TokenizerError('"model.vocab" must be an object or a list', file);
  }
  if (vocabulary.size === 0) throw new TokenizerError('"model.vocab" is empty', file);
  return vocabulary;
}

function sameId(where: string, id: number, other: string, file: string): TokenizerError {
  return new TokenizerError(`${where} has the id ${id}, which is that of ${JSON.stringify(other)}`, file);
}

function readAddedTokens(tokenizer: JsonObject, config: JsonObject, file: string, configFile: string): AddedToken[] {
  const listed = tokenizer.added_tokens ?? [];
  if (!Array.isArray(listed)) throw new TokenizerError('"added_tokens" must be a list', file);
  const tokens = listed.map((entry, index) => addedToken(entry, `"added_tokens" entry ${index}`, file));
  const known = new Set(tokens.map((token) => token.content));
  if (isObject(config.added_tokens_decoder)) {
    for (const [id, entry] of Object.entries(config.added_tokens_decoder)) {
      if (!isObject(entry)) continue;
      const token = addedToken({ ...entry, id: Number(id) }, `"added_tokens_decoder" entry ${id}`, configFile);
      if (!known.has(token.content)) tokens.push(token);
    }
  }
  return tokens;
}

/** What tokenizer_config.json says of an added token wins over tokenizer.json, but what is special in one of them is special. */
function withConfiguredFlags(tokenizer: JsonObject, decoder: Json | undefined): JsonObject {
  if (!Array.isArray(tokenizer.added_tokens) || !isObject(decoder)) return tokenizer;
  const entries = Object.values(decoder).filter(isObject);
  const configured = new Map(entries.map((entry) => [entry.content, entry]));
  const flagged = (token: Json) => {
    const entry = isObject(token) ? configured.get(token.content) : undefined;
    if (!isObject(token) || entry === undefined) return token;
    return { ...token, ...entry, id: token.id ?? null, special: token.special === true || entry.special === true };
  };
  return { ...tokenizer, added_tokens: tokenizer.added_tokens.map(flagged) };
}

/** An id belongs to one text, be it in the vocabulary or added. */
function checkAddedIds(added: readonly AddedToken[], vocabulary: ReadonlyMap<number, string>, file: string): void {
  const texts = new Map<number, string>();
  for (const { id, content } of added) {
    const other = vocabulary.get(id) ?? texts.get(id) ?? content;
    if (other !== content) throw sameId(`added token ${JSON.stringify(content)}`, id, other, file);
    texts.set(id, content);
  }
}

function addedToken(entry: Json, where: string, file: string): AddedToken {
  if (!isObject(entry) || typeof entry.content !== "string" || entry.content === "") {
    throw new TokenizerError(`${where} must have a text in "content"`, file);
  }
  return {
    id: checkId(entry.id, `the id of ${where}`, file),
    content: entry.content,
    special: entry.special === true,
    singleWord: entry.single_word === true,
  };
}

/** A named special token is special, and one that is an ordinary word of the vocabulary becomes an added token, as in transformers. */
function markNamedTokens(added: AddedToken[], named: Record<string, string>, vocabulary: Map<number, string>): void {
  const missing = new Set(Object.values(named));
  for (const token of added) if (missing.delete(token.content)) token.special = true;
  if (missing.size === 0) return;
  for (const [id, content] of vocabulary) {
    if (missing.has(content)) added.push({ id, content, special: true, singleWord: false });
  }
}

/** The entries of tokenizer.json as they stand (with lstrip, rstrip, normalized), then those found elsewhere. */
function rawAddedTokens(tokenizer: JsonObject, config: JsonObject, added: AddedToken[]): Json[] {
  const listed = Array.isArray(tokenizer.added_tokens) ? tokenizer.added_tokens : [];
  const decoder = isObject(config.added_tokens_decoder) ? config.added_tokens_decoder : {};
  const extra = added.slice(listed.length).map((token) => {
    const entry = decoder[String(token.id)];
    const flags = isObject(entry) && entry.content === token.content ? entry : { normalized: false };
    return { ...flags, id: token.id, content: token.content, special: token.special };
  });
  return [...listed, ...extra];
}

/** Special tokens are written as a text or as an added token with its `content`. */
function namedTokens(source: JsonObject): Record<string, string> {
  const named: Record<string, string> = {};
  for (const [name, value] of Object.entries(source)) {
    if (!name.endsWith("_token")) continue;
    const content = isObject(value) ? value.content : value;
    if (typeof content === "string" && content !== "") named[name] = content;
  }
  return named;
}

/**
 * chat_template.jinja wins over chat_template.json, which wins over tokenizer_config.json. Where templates have files of their
 * own, those that tokenizer_config.json names for tools and documents are not used.
 */
async function readChatTemplates(folder: string, config: JsonObject): Promise<Map<string, TemplateSource>> {
  const templates = new Map<string, TemplateSource>();
  addTemplates(templates, config.chat_template, join(folder, "tokenizer_config.json"));
  const written = new Map<string, TemplateSource>();
  const jsonFile = join(folder, "chat_template.json");
  addTemplates(templates, (await readJsonObject(jsonFile))?.chat_template, jsonFile);
  const jinjaFile = join(folder, "chat_template.jinja");
  const jinja = await readTextFile(jinjaFile);
  if (jinja !== undefined) written.set("default", { text: jinja, file: jinjaFile });
  const named = join(folder, "additional_chat_templates");
  for (const entry of await readdir(named).catch(() => [])) {
    const file = join(named, entry);
    const text = entry.endsWith(".jinja") ? await readTextFile(file) : undefined;
    if (text !== undefined) written.set(entry.slice(0, -".jinja".length), { text, file });
  }
  if (written.size === 0) return templates;
  const usual = templates.get("default");
  return usual === undefined ? written : new Map([["default", usual], ...written]);
}

function addTemplates(templates: Map<string, TemplateSource>, value: Json | undefined, file: string): void {
  if (value === undefined || value === null) return;
  if (typeof value === "string") {
    templates.set("default", { text: value, file });
    return;
  }
  const entries = Array.isArray(value) ? value : [value];
  for (const entry of entries) {
    if (!isObject(entry) || typeof entry.name !== "string" || typeof entry.template !== "string") {
      throw new TokenizerError('"chat_template" must be a text or a list of {"name", "template"}', file);
    }
    templates.set(entry.name, { text: entry.template, file });
  }
}
