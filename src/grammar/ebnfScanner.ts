// Reading the text of a grammar character by character; what the notations have in common.

import { GrammarError } from "./grammarError.js";
import { alt, chars, complement, type Expr, MAX_REPETITIONS, type Range, repeat, seq, text } from "./ir.js";
import { READ_COST, spend } from "./workBudget.js";

const MAX_DEPTH = 250;

const ESCAPES: ReadonlyMap<string, number> = new Map([
  ["t", 9],
  ["n", 10],
  ["v", 11],
  ["f", 12],
  ["r", 13],
  ["0", 0],
]);
/** Digits of \x, \u and \U. */
const HEX_DIGITS: ReadonlyMap<string, number> = new Map([
  ["x", 2],
  ["u", 4],
  ["U", 8],
]);

export class EbnfScanner {
  at = 0;
  private depth = 0;
  private lineKnown = 1;
  private lineKnownAt = 0;

  constructor(readonly source: string) {
    spend(READ_COST * source.length);
  }

  /** From 1. Asked for again and again, so it is counted on from where it was asked for last. */
  get line(): number {
    if (this.at < this.lineKnownAt) [this.lineKnown, this.lineKnownAt] = [1, 0];
    for (; this.lineKnownAt < this.at; this.lineKnownAt++) {
      if (this.source[this.lineKnownAt] === "\n") this.lineKnown++;
    }
    return this.lineKnown;
  }

  get atEnd(): boolean {
    return this.at >= this.source.length;
  }

  error(message: string): GrammarError {
    return new GrammarError(`line ${this.line}: ${message}`);
  }

  /** Counts nested groups while `read` runs. */
  nested<T>(read: () => T): T {
    if (++this.depth > MAX_DEPTH) throw this.error(`groups are nested more than ${MAX_DEPTH} deep`);
    const result = read();
    this.depth--;
    return result;
  }

  /** The match of a sticky expression at this place, consumed; null: none. */
  match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.source);
    if (found === null) return null;
    this.at = pattern.lastIndex;
    return found[0];
  }

  takes(literal: string): boolean {
    if (!this.source.startsWith(literal, this.at)) return false;
    this.at += literal.length;
    return true;
  }

  looksAt(pattern: RegExp): boolean {
    pattern.lastIndex = this.at;
    return pattern.test(this.source);
  }

  /** A string in double quotes; the opening one has been read. */
  quotedText(quote: string): string {
    let content = "";
    while (!this.takes(quote)) {
      if (this.atEnd || this.source[this.at] === "\n") throw this.error("a string is not closed");
      content += String.fromCodePoint(this.character());
    }
    return content;
  }

  /** A regular expression between slashes, as it is written; the first slash has been read. */
  regexText(): string {
    const from = this.at;
    for (let inClass = false; ; this.at++) {
      const character = this.source[this.at];
      if (character === undefined || character === "\n") throw this.error("a regular expression is not closed");
      if (character === "/" && !inClass) break;
      if (character === "\\") this.at++;
      else if (character === "[") inClass = true;
      else if (character === "]") inClass = false;
    }
    return this.source.slice(from, this.at++);
  }

  /** One character, escaped or not. */
  character(): number {
    const code = this.source.codePointAt(this.at)!;
    this.at += code > 0xffff ? 2 : 1;
    if (code !== 0x5c) return code;
    const letter = this.source[this.at++];
    if (letter === undefined) throw this.error("ends in a backslash");
    const known = ESCAPES.get(letter);
    if (known !== undefined) return known;
    const digits = HEX_DIGITS.get(letter);
    if (digits === undefined) {
      if (/[A-Za-z0-9]/.test(letter)) throw this.error(`the escape \\${letter} is not known`);
      return letter.codePointAt(0)!;
    }
    const written = this.source.slice(this.at, this.at + digits);
    const value = Number.parseInt(written, 16);
    if (written.length < digits || !/^[0-9A-Fa-f]+$/.test(written) || value > 0x10ffff) {
      throw this.error("not a valid hexadecimal escape");
    }
    this.at += digits;
    return value;
  }

  /** A class of characters; its opening bracket has been read. */
  characterClass(): Expr {
    const isNegated = this.takes("^");
    const ranges: Range[] = [];
    while (!this.takes("]")) {
      if (this.atEnd || this.source[this.at] === "\n") throw this.error("a class of characters is not closed");
      const low = this.character();
      const isRange = this.source[this.at] === "-" && this.source[this.at + 1] !== "]";
      if (!isRange) {
        ranges.push([low, low]);
        continue;
      }
      this.at++;
      if (this.atEnd) throw this.error("a class of characters is not closed");
      const high = this.character();
      if (high < low) throw this.error("a range of characters is out of order");
      ranges.push([low, high]);
    }
    return chars(...(isNegated ? complement(ranges) : ranges));
  }

  /** An item repeated as often as two numbers say; `max` -1: without bound. */
  repeated(item: Expr, min: number, max: number): Expr {
    if (max !== -1 && max < min) throw this.error("the numbers of a repetition are out of order");
    if (Math.max(min, max) > MAX_REPETITIONS) {
      throw this.error(`more than ${MAX_REPETITIONS} repetitions are not supported`);
    }
    return repeat(item, min, max);
  }
}

/** A text in whatever case its letters are. */
export function anyCase(literal: string): Expr {
  const letters = [...literal].map((character) => {
    const forms = [character, character.toLowerCase(), character.toUpperCase()];
    return alt(...[...new Set(forms)].map(text));
  });
  return seq(...letters);
}
