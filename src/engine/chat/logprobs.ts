// Logprobs of prompt and reply in the wire's shape.

import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import type { PromptTokenLogprobs, TokensEvent, TopLogprobs } from "../../inference/index.js";
import type { Tokenizer } from "../../text/index.js";
import type { ChoiceLogprobs, PromptLogprobs, TopLogprob } from "../../types/chat.js";
import { TokenTexts } from "./tokenTexts.js";

/** Stands for minus infinity, which JSON cannot say. */
const FLOOR = -9999;

const floored = (logprob: number): number => Math.max(logprob, FLOOR);

/** Shows the logprobs of one choice, event by event. */
export class LogprobWriter {
  private readonly texts: TokenTexts;

  constructor(
    tokenizer: Tokenizer,
    /** Tokens are written `token_id:N`. */
    private readonly asIds: boolean,
    /** Entries say what the token's logprob was at the temperature it was drawn with, where that was not 1. */
    private readonly withTemperature: boolean,
  ) {
    this.texts = new TokenTexts(tokenizer);
  }

  write(event: TokensEvent): ChoiceLogprobs | null {
    const { logprobs, top } = event;
    if (logprobs === null) return null;
    const tempered = this.withTemperature ? event.temperatureLogprobs : null;
    const content = event.tokenIds.map((id, i) => {
      const entry = {
        ...this.entry(id, logprobs[i]!),
        top_logprobs: this.list(top?.[i]),
        ...(tempered === null ? {} : { temperature_logprob: floored(tempered[i]!) }),
      };
      this.texts.advance(id);
      return entry;
    });
    return { content };
  }

  private list(top: TopLogprobs | undefined): TopLogprob[] {
    return top === undefined ? [] : Array.from(top.ids, (id, k) => this.entry(id, top.logprobs[k]!));
  }

  private entry(id: number, logprob: number): TopLogprob {
    const token = this.asIds ? `token_id:${id}` : this.texts.text(id);
    return { token, logprob: floored(logprob), bytes: this.texts.bytes(id) };
  }
}

/** One entry per prompt token, the first null: the token itself first, then the likeliest by rank. */
export async function promptLogprobs(
  tokenizer: Tokenizer,
  prompt: readonly number[],
  entries: readonly (PromptTokenLogprobs | null)[],
): Promise<(PromptLogprobs | null)[]> {
  const texts = new TokenTexts(tokenizer);
  const shown: (PromptLogprobs | null)[] = [];
  for (const [position, entry] of entries.entries()) {
    const own = prompt[position]!;
    shown.push(entry === null ? null : promptEntry(texts, own, entry));
    texts.advance(own);
    while (shouldYield()) await yieldToEventLoop();
  }
  return shown;
}

/**
 * An object lists integer keys in ascending order whatever the order of insertion; JSON written from it does too. The
 * ranks tell which is which.
 */
function promptEntry(texts: TokenTexts, own: number, { logprob, rank, top }: PromptTokenLogprobs): PromptLogprobs {
  const entry: PromptLogprobs = {
    [own]: { logprob: floored(logprob), rank, decoded_token: texts.text(own) },
  };
  for (const [k, id] of top.ids.entries()) {
    entry[id] ??= { logprob: floored(top.logprobs[k]!), rank: k + 1, decoded_token: texts.text(id) };
  }
  return entry;
}
