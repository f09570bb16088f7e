// One text of a completion, event by event.

import type { PromptTokenLogprobs, TokensEvent } from "../../inference/index.js";
import type { Tokenizer } from "../../text/index.js";
import type { TextCompletionChoice, TextCompletionLogprobs } from "../../types/textCompletions.js";
import { LogprobWriter } from "../chat/logprobs.js";
import { TokenTexts } from "../chat/tokenTexts.js";

export interface ChoiceOptions {
  tokenizer: Tokenizer;
  /** The likeliest tokens shown beside each; null: no logprobs are shown. */
  logprobs: number | null;
  /** Tokens are written `token_id:N`. */
  tokensAsIds: boolean;
  /** The text leaves special tokens out. */
  skipSpecialTokens: boolean;
  returnTokenIds: boolean;
  /** Nothing is written: only the prompt is echoed. */
  isEmpty: boolean;
}

type Piece = Omit<TextCompletionChoice, "index">;

/** Writes the pieces of one choice; offsets go on from piece to piece. */
export class TextChoiceWriter {
  /** Output tokens so far. */
  tokens = 0;
  /** Sum of their logprobs, where those are there. */
  likelihood = 0;
  /** Where in the text the next token begins. */
  private offset = 0;
  private readonly logprobs: LogprobWriter;
  private readonly texts: TokenTexts;

  constructor(private readonly options: ChoiceOptions) {
    this.logprobs = new LogprobWriter(options.tokenizer, options.tokensAsIds, false);
    this.texts = new TokenTexts(options.tokenizer);
  }

  /** The prompt, as it stands before the text. */
  echo(text: string, prompt: readonly number[], logprobs: (PromptTokenLogprobs | null)[] | null): Piece {
    const piece = emptyPiece(text);
    if (this.options.logprobs !== null && logprobs !== null) {
      piece.logprobs = this.promptLogprobs(text, prompt, logprobs);
      this.offset = text.length;
    }
    return piece;
  }

  write({ text, tokenIds, finish, ...event }: TokensEvent): Piece {
    const { tokenizer, logprobs, returnTokenIds, isEmpty, skipSpecialTokens } = this.options;
    const piece = emptyPiece(isEmpty ? "" : text);
    if (!isEmpty) {
      this.tokens += tokenIds.length;
      this.likelihood += (event.logprobs ?? []).reduce((sum, logprob) => sum + logprob, 0);
      if (logprobs !== null) {
        const written = this.logprobs.write({ ...event, text, tokenIds, finish })?.content ?? [];
        piece.logprobs = emptyLogprobs();
        for (const [i, { token, logprob, top_logprobs }] of written.entries()) {
          const id = tokenIds[i]!;
          const isHidden = skipSpecialTokens && tokenizer.specialIds.has(id);
          const length = isHidden ? 0 : this.texts.text(id).length;
          this.add(piece.logprobs, token, length, logprob, [[token, logprob], ...top_logprobs.map(pair)]);
          this.texts.advance(id);
        }
      }
    }
    if (returnTokenIds) piece.token_ids = isEmpty ? [] : tokenIds;
    if (finish !== null) {
      piece.finish_reason = isEmpty ? "length" : finish.reason;
      piece.stop_reason = isEmpty ? null : finish.stopReason;
    }
    return piece;
  }

  private promptLogprobs(
    text: string,
    prompt: readonly number[],
    entries: readonly (PromptTokenLogprobs | null)[],
  ): TextCompletionLogprobs {
    const { tokenizer, tokensAsIds, logprobs } = this.options;
    const texts = new TokenTexts(tokenizer);
    const shown = emptyLogprobs();
    // Of a text that was cut on the left only the end has been read.
    const read = tokenizer.decode(prompt, { skipSpecialTokens: false });
    if (text.endsWith(read)) this.offset = text.length - read.length;
    const textOf = (id: number) => (tokensAsIds ? `token_id:${id}` : texts.text(id));
    for (const [i, id] of prompt.entries()) {
      const entry = entries[i] ?? null;
      const token = textOf(id);
      const own = texts.text(id);
      // What the tokenizer puts around a text is not in it.
      const length = tokenizer.specialIds.has(id) && !text.startsWith(own, this.offset) ? 0 : own.length;
      if (entry === null) this.add(shown, token, length, null, null);
      else {
        // More of them may have been asked for by prompt_logprobs.
        const top = Array.from(entry.top.ids, (other, k) => [other, entry.top.logprobs[k]!] as const)
          .filter(([other]) => other !== id)
          .slice(0, logprobs ?? 0)
          .map(([other, logprob]) => [textOf(other), logprob] as const);
        this.add(shown, token, length, entry.logprob, [[token, entry.logprob], ...top]);
      }
      texts.advance(id);
    }
    return shown;
  }

  private add(
    shown: TextCompletionLogprobs,
    token: string,
    /** Of the text that the token stands for, in UTF-16 units. */
    length: number,
    logprob: number | null,
    top: (readonly [string, number])[] | null,
  ): void {
    shown.tokens.push(token);
    shown.token_logprobs.push(logprob === null ? null : floored(logprob));
    shown.top_logprobs.push(top === null ? null : byText(top));
    shown.text_offset.push(this.offset);
    this.offset += length;
  }
}

/** Stands for minus infinity, which JSON cannot say. */
const floored = (logprob: number): number => Math.max(logprob, -9999);

/** Of tokens that share a text, such as those that end inside a character, the first: the token itself, or the likeliest. */
function byText(top: readonly (readonly [string, number])[]): Record<string, number> {
  const logprobs = new Map<string, number>();
  for (const [text, logprob] of top) if (!logprobs.has(text)) logprobs.set(text, floored(logprob));
  return Object.fromEntries(logprobs);
}

const pair = ({ token, logprob }: { token: string; logprob: number }) => [token, logprob] as const;

const emptyLogprobs = (): TextCompletionLogprobs => ({
  tokens: [],
  token_logprobs: [],
  top_logprobs: [],
  text_offset: [],
});

const emptyPiece = (text: string): Piece => ({
  text,
  logprobs: null,
  finish_reason: null,
  stop_reason: null,
  token_ids: null,
  prompt_token_ids: null,
});

/** Puts a piece behind what there is of a choice. */
export function append(choice: TextCompletionChoice, piece: Piece): void {
  choice.text += piece.text;
  if (piece.logprobs !== null) {
    choice.logprobs ??= emptyLogprobs();
    for (const name of ["tokens", "token_logprobs", "top_logprobs", "text_offset"] as const) {
      for (const entry of piece.logprobs[name]) (choice.logprobs[name] as unknown[]).push(entry);
    }
  }
  if (piece.token_ids !== null) {
    choice.token_ids ??= [];
    for (const id of piece.token_ids) choice.token_ids.push(id);
  }
  choice.finish_reason = piece.finish_reason ?? choice.finish_reason;
  choice.stop_reason = piece.stop_reason ?? choice.stop_reason;
}

export const emptyChoice = (index: number): TextCompletionChoice => ({ index, ...emptyPiece("") });
