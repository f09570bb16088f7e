// How many tokens of a reply are thoughts.

import type { ReasoningFormat, Tokenizer } from "../../text/index.js";

/** What thoughts begin and end with, in tokens. */
export interface ThoughtMarks {
  opens: readonly (readonly number[])[];
  closes: readonly (readonly number[])[];
  /** Whether more may follow, later in the reply. */
  areSeveral: boolean;
}

export function thoughtMarks(
  tokenizer: Tokenizer,
  { opens, closes, messages, again = messages !== undefined }: ReasoningFormat,
): ThoughtMarks {
  const tokens = (mark: string) => tokenizer.encode(mark);
  return { opens: opens.map(tokens), closes: closes.map(tokens), areSeveral: again };
}

/** Counts the thoughts of one choice as its tokens come. The marks around them count as neither thoughts nor answer. */
export class ThoughtTokens {
  private state: "before" | "inside" | "after";
  /** Since the beginning, or since the thoughts' own, or their last end. */
  private readonly tokens: number[] = [];
  /** Of thoughts that have ended, where more may follow. */
  private ended = 0;
  private text = "";
  private hasAnswered = false;

  constructor(
    private readonly tokenizer: Tokenizer,
    private readonly marks: ThoughtMarks,
    /** The prompt has opened the thoughts already. */
    startsInside: boolean,
  ) {
    this.state = startsInside ? "inside" : "before";
  }

  /** `thoughts`: what was read of them in the text that came with these tokens; `answers`: whether they have ended by then. */
  push(ids: readonly number[], thoughts: string, answers: boolean): void {
    this.text += thoughts;
    if (this.hasAnswered) return;
    for (const id of ids) this.take(id);
    this.hasAnswered = answers;
  }

  /** So far. */
  get count(): number {
    if (this.text === "") return 0;
    if (this.ended > 0 && this.state === "before") return this.ended;
    const isMarked = this.state === "after" || (this.state === "inside" && !this.hasAnswered);
    return isMarked ? this.ended + this.tokens.length : this.spanned();
  }

  private take(id: number): void {
    const { state, tokens, marks } = this;
    if (state === "after") return;
    tokens.push(id);
    const mark = (state === "before" ? marks.opens : marks.closes).find((one) => endsWith(tokens, one));
    if (mark === undefined) return;
    tokens.length -= state === "before" ? tokens.length : mark.length;
    this.state = state === "before" ? "inside" : "after";
    if (this.state === "inside" || !marks.areSeveral) return;
    this.ended += tokens.length;
    tokens.length = 0;
    this.state = "before";
  }

  /** Where a mark is joined to what stands beside it: the tokens that as much text takes. */
  private spanned(): number {
    let bytes = Buffer.byteLength(this.text);
    let count = 0;
    for (; count < this.tokens.length && bytes > 0; count++) {
      bytes -= this.tokenizer.tokenBytes(this.tokens[count]!).length;
    }
    return count;
  }
}

function endsWith(tokens: readonly number[], end: readonly number[]): boolean {
  const from = tokens.length - end.length;
  return end.length > 0 && from >= 0 && end.every((id, i) => tokens[from + i] === id);
}
