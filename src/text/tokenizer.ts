// Text to ids and back, exactly as the model's own tokenizer does it.

import { join } from "node:path";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { ChatTemplate } from "../jinja/chatTemplate.js";
import { type Conversation, isShortConversation, renderConversation } from "./conversation.js";
import { createDecoder, type DecodeOptions, type IncrementalDecoder } from "./incrementalDecoder.js";
import { libraryTokenizer } from "./libraryTokenizer.js";
import { type KeptTokens, keptTokens, TextThread } from "./textThread.js";
import { bytesOfToken, type DecoderLayout, readDecoderLayout } from "./tokenBytes.js";
import { readTokenizerFolder, type TemplateSource, type TokenizerFolder } from "./tokenizerFolder.js";
import { checkEncodingLayout } from "./tokenizerLayout.js";
import { tryTokenizer } from "./tokenizerTrial.js";

/** The one call made of Hugging Face's library; an id is undefined for what its vocabulary does not cover. */
interface Encoder {
  encode(text: string, options: { add_special_tokens: boolean }): { ids: (number | undefined)[] };
}

export interface EncodeOptions {
  /** Whether the tokenizer adds what its post-processor says (usually a leading BOS). Default false. */
  addSpecialTokens?: boolean;
}

/** In UTF-16 units: a text beyond this would hold up everything else for more than a few milliseconds. */
const MAX_INLINE_LENGTH = 8192;
/** A text beyond this takes seconds. In UTF-16 units. */
const MAX_QUICK_LENGTH = 1_000_000;

/**
 * Loads the tokenizer of a Hugging Face folder. Throws TokenizerError when a file is missing or malformed, or when the
 * layout would give other ids or texts than Hugging Face's own library.
 */
export async function loadTokenizer(path: string): Promise<Tokenizer> {
  const folder = await readTokenizerFolder(path);
  await tryTokenizer(folder, path, join(path, "tokenizer.json"));
  return new Tokenizer(folder, path);
}

/** The same without a trial, for a thread that whoever started it can end. */
export async function loadUntriedTokenizer(path: string): Promise<Tokenizer> {
  return new Tokenizer(await readTokenizerFolder(path), path);
}

export class Tokenizer {
  /** Highest id + 1: the length of an array indexed by id. Ids in between may be unused. */
  readonly vocabSize: number;
  /** How many tokens there are. */
  readonly size: number;
  /** Special tokens by name: `bos_token`, `eos_token`, `pad_token`, ... to their text. */
  readonly specialTokens: Readonly<Record<string, string>>;
  readonly specialIds: ReadonlySet<number>;
  readonly bosId: number | null;
  readonly eosId: number | null;
  readonly padId: number | null;
  /** The template named "default", or null when the folder has none. */
  readonly chatTemplate: string | null;
  /** All templates by name, "default", "tool_use", "rag", ..., with the files they stand in. */
  readonly chatTemplates: ReadonlyMap<string, TemplateSource>;

  /** Of its files. */
  readonly hash: string;

  private readonly encoder: Encoder;
  private readonly thread: TextThread;
  /** Of the longest texts, so that others need not wait for them. */
  private readonly longTextThread: TextThread;
  /** Apart from the other, so that a template that takes long delays no encoding. */
  private readonly renderingThread: TextThread;
  private readonly layout: DecoderLayout;
  private readonly tokens: (string | undefined)[];
  private readonly ids: Map<string, number>;
  private readonly addedIds: ReadonlySet<number>;
  private readonly cleanUpSpaces: boolean;
  private readonly bytesById = new Map<number, Uint8Array>();
  private readonly wholeTexts = new Map<number, string | null>();

  /** `path` is where `folder` was read. */
  constructor(folder: TokenizerFolder, path: string) {
    const file = join(path, "tokenizer.json");
    checkEncodingLayout(folder, file);
    this.hash = folder.hash;
    this.thread = new TextThread({ folder: path, hash: folder.hash });
    this.longTextThread = new TextThread({ folder: path, hash: folder.hash });
    this.renderingThread = new TextThread({ folder: path, hash: folder.hash });
    this.layout = readDecoderLayout(folder, file);
    this.encoder = libraryTokenizer(folder, file);
    const tokens = new Map(folder.vocabulary);
    for (const token of folder.addedTokens) tokens.set(token.id, token.content);
    this.vocabSize = maxKey(tokens) + 1;
    this.size = tokens.size;
    this.tokens = new Array<string | undefined>(this.vocabSize).fill(undefined);
    for (const [id, token] of tokens) this.tokens[id] = token;
    this.ids = new Map([...tokens].map(([id, token]) => [token, id]));
    this.addedIds = new Set(folder.addedTokens.map((token) => token.id));
    this.specialIds = new Set(folder.addedTokens.filter((token) => token.special).map((token) => token.id));
    this.specialTokens = folder.specialTokens;
    this.bosId = this.namedId("bos_token");
    this.eosId = this.namedId("eos_token");
    this.padId = this.namedId("pad_token");
    this.chatTemplates = folder.chatTemplates;
    this.chatTemplate = folder.chatTemplates.get("default")?.text ?? null;
    this.cleanUpSpaces = cleansUpSpaces(folder);
  }

  /** Token ids of `text`, at about 1 MB/s. */
  encode(text: string, options: EncodeOptions = {}): number[] {
    if (text === "" && !options.addSpecialTokens) return [];
    const { ids } = this.encoder.encode(text, { add_special_tokens: options.addSpecialTokens ?? false });
    // A character that is neither in the vocabulary nor covered by an unknown token has no id.
    return ids.filter((id) => id !== undefined);
  }

  /**
   * What `encode` gives, or the part of it to `keep`. A long text is encoded in a thread of its own while everything else
   * goes on. Rejects with the signal's reason, with ConflictError after `close`.
   */
  async encodeAsync(
    text: string,
    options: EncodeOptions & { keep?: KeptTokens | null; signal?: AbortSignal } = {},
  ): Promise<number[]> {
    const { addSpecialTokens = false, keep = null, signal } = options;
    signal?.throwIfAborted();
    if (text.length > MAX_INLINE_LENGTH) {
      const thread = text.length > MAX_QUICK_LENGTH ? this.longTextThread : this.thread;
      return listAsync(await thread.encode({ text, addSpecialTokens, keep }, signal));
    }
    while (shouldYield()) await yieldToEventLoop();
    return keptTokens(this.encode(text, { addSpecialTokens }), keep);
  }

  /**
   * What `renderConversation` gives and throws. A long conversation, and whatever is rendered by a template that is only
   * its source, is rendered in a thread of its own. Rejects with the signal's reason, with ClosedError after `close`, with
   * UnavailableError when it takes more memory than the thread has.
   */
  async renderAsync(
    template: ChatTemplate | Pick<ChatTemplate, "source">,
    conversation: Conversation,
    signal?: AbortSignal,
  ): Promise<string> {
    signal?.throwIfAborted();
    if (!(template instanceof ChatTemplate) || !isShortConversation(conversation)) {
      return this.renderingThread.render({ source: template.source, conversation }, signal);
    }
    while (shouldYield()) await yieldToEventLoop();
    return renderConversation(template, conversation);
  }

  /** Ends the threads, if there are any. Short texts can still be encoded. */
  async close(): Promise<void> {
    await Promise.all([this.thread, this.longTextThread, this.renderingThread].map((thread) => thread.close()));
  }

  /** The text of `ids`. Ids outside the vocabulary add nothing; incomplete characters become U+FFFD. */
  decode(ids: Iterable<number>, options: DecodeOptions = {}): string {
    const decoder = this.stream(options);
    const pieces: string[] = [];
    for (const id of ids) pieces.push(decoder.push(id));
    pieces.push(decoder.flush());
    return pieces.join("");
  }

  /** A decoder for one sequence whose ids come one by one; constant work per id. */
  stream(options: DecodeOptions = {}): IncrementalDecoder {
    return createDecoder(
      {
        layout: this.layout,
        token: (id) => this.tokens[id],
        bytes: (id) => this.tokenBytes(id),
        wholeText: (id) => this.wholeText(id),
        isSpecial: (id) => this.specialIds.has(id),
        isAdded: (id) => this.addedIds.has(id),
        cleanUpSpaces: this.cleanUpSpaces,
      },
      options,
    );
  }

  /** The token's own text, leading space included; parts of characters show as U+FFFD. "" for an unknown id. */
  tokenText(id: number): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.tokenBytes(id));
  }

  /** The bytes of the token's own text: of a special token its UTF-8, of an unknown id none. Not to be written to. */
  tokenBytes(id: number): Uint8Array {
    const known = this.bytesById.get(id);
    if (known !== undefined) return known;
    const token = this.tokens[id];
    const bytes = token === undefined ? new Uint8Array() : bytesOfToken(token, this.layout);
    if (token !== undefined) this.bytesById.set(id, bytes);
    return bytes;
  }

  /** The text of a token that is UTF-8 by itself; null when it begins or ends inside a character. "" for an unknown id. */
  wholeText(id: number): string | null {
    let text = this.wholeTexts.get(id);
    if (text !== undefined) return text;
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.tokenBytes(id));
    } catch {
      text = null;
    }
    // Ids outside the vocabulary have no end.
    if (this.tokens[id] !== undefined) this.wholeTexts.set(id, text);
    return text;
  }

  /** A token as the vocabulary writes it ("Ġthe", "<|im_end|>"); "" for an unknown id. */
  piece(id: number): string {
    return this.tokens[id] ?? "";
  }

  /** The id of a token as the vocabulary writes it ("Ġthe", "<|im_end|>"), or null. */
  tokenToId(token: string): number | null {
    return this.ids.get(token) ?? null;
  }

  private namedId(name: string): number | null {
    const token = this.specialTokens[name];
    return token === undefined ? null : this.tokenToId(token);
  }
}

/** Byte pairs keep their spaces, as in transformers, unless tokenizer_config.json insists. */
function cleansUpSpaces({ config, model }: TokenizerFolder): boolean {
  if (config.clean_up_tokenization_spaces !== true) return false;
  return (
    model.type === "Unigram" || config.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output === true
  );
}

function maxKey(tokens: Map<number, string>): number {
  let max = 0;
  for (const id of tokens.keys()) max = Math.max(max, id);
  return max;
}

/** Ids that are copied at once: a matter of a millisecond. */
const COPY_CHUNK = 65_536;

async function listAsync(ids: Int32Array): Promise<number[]> {
  const list: number[] = [];
  for (let from = 0; from < ids.length; from += COPY_CHUNK) {
    for (const id of ids.subarray(from, from + COPY_CHUNK)) list.push(id);
    while (shouldYield()) await yieldToEventLoop();
  }
  return list;
}
