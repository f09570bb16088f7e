// One tool call, read character by character in whichever notation it is written.

export type ReaderState = "reading" | "done" | "failed";

export interface CallReader {
  /** Once it is certain that this is a call: it has a name, and its arguments have begun or the call has ended. */
  readonly name: string | null;
  /** Takes one character; "failed" when it cannot be part of a call, which is then unread. */
  push(character: string): ReaderState;
  /** The arguments since the last call, as JSON text. */
  takeArguments(): string;
  /** Whether the call that was read to its end, from `text`, has arguments that can be handed out. */
  isSound(text: string): boolean;
}

export type Reading<T = void> = Generator<void, T, string>;

/** Values nested deeper than this are no arguments of a function. */
export const MAX_DEPTH = 64;

class NoCall extends Error {}

/** A reader that is written as a program: it asks for the next character where it needs one. */
export abstract class ProgramReader implements CallReader {
  name: string | null = null;
  /** The character that is looked at. */
  protected current = "";
  private ready = "";
  /** The first half of a character whose second half is still to come. */
  private half = "";
  private program: Reading | null = null;

  protected abstract read(): Reading;

  push(character: string): ReaderState {
    if (this.program === null) {
      this.program = this.read();
      this.current = character;
    }
    try {
      return this.program.next(character).done ? "done" : "reading";
    } catch (error) {
      if (error instanceof NoCall) return "failed";
      throw error;
    }
  }

  takeArguments(): string {
    const text = this.ready;
    this.ready = "";
    return text;
  }

  isSound(_text: string): boolean {
    return true;
  }

  /** More of the arguments. */
  protected give(json: string): void {
    this.ready += json;
  }

  /** More of a string among the arguments. */
  protected giveText(text: string): void {
    const all = this.half + text;
    this.half = /[\ud800-\udbff]$/.test(all) ? all.slice(-1) : "";
    this.give(JSON.stringify(all.slice(0, all.length - this.half.length)).slice(1, -1));
  }

  /** Its end. */
  protected endText(): void {
    if (this.half !== "") this.give(JSON.stringify(this.half).slice(1, -1));
    this.half = "";
  }

  protected at(character: string): boolean {
    return this.current === character;
  }

  protected *advance(): Reading {
    this.current = yield;
  }

  protected fail(): never {
    throw new NoCall();
  }

  protected *skipSpace(): Reading {
    while (/\s/.test(this.current)) yield* this.advance();
  }

  /** Reads on while the characters match; gives them. */
  protected *word(pattern: RegExp): Reading<string> {
    let text = "";
    while (pattern.test(this.current)) {
      text += this.current;
      yield* this.advance();
    }
    return text;
  }

  /** From `open` to `close`, with members and commas between; looks no further than its last character. */
  protected *members(open: "[" | "{", close: "]" | "}", member: () => Reading): Reading {
    this.give(open);
    yield* this.advance();
    yield* this.skipSpace();
    for (let first = true; !this.at(close); first = false) {
      if (!first) this.give(", ");
      yield* member();
      yield* this.comma(close);
    }
    this.give(close);
  }

  /** After a value of several stands a comma, unless it is the last one before `end`. */
  protected *comma(end: string): Reading {
    yield* this.skipSpace();
    if (this.at(end)) return;
    yield* this.expect(",");
    yield* this.skipSpace();
  }

  protected *expect(text: string): Reading {
    yield* this.expectEnd(text);
    yield* this.advance();
  }

  /** The same, and looks no further than its last character. */
  protected *expectEnd(text: string): Reading {
    for (let index = 0; index < text.length; index++) {
      if (index > 0) yield* this.advance();
      if (this.current !== text[index]) this.fail();
    }
  }
}
