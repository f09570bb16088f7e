// Regular expressions: the core that ECMAScript (with the u flag) and Python agree on, to the intermediate form. Where
// the two differ, ECMAScript counts: `.` matches no line terminator, `$` is the very end, `\d` is 0 to 9.

import { classOfLetter, DOT, propertyRanges } from "./characterClasses.js";
import { ExprCache } from "./exprCache.js";
import { GrammarError } from "./grammarError.js";
import { and, chars, complement, type Expr, MAX_REPETITIONS, not, type Range, text } from "./ir.js";
import { Anchored } from "./regexAnchors.js";
import { READ_COST, spend } from "./workBudget.js";

const MAX_DEPTH = 250;
/** Characters of `{2,5}`. */
const MAX_COUNT_LENGTH = 40;
/** Characters of patterns, and of parts of them, that are looked up among those before. */
const MAX_SHARED_LENGTH = 200;
const searches = new ExprCache(256);

const CONTROL_ESCAPES: ReadonlyMap<string, number> = new Map([
  ["t", 9],
  ["n", 10],
  ["v", 11],
  ["f", 12],
  ["r", 13],
]);

/**
 * The texts that the whole of `pattern` matches.
 * @throws GrammarError naming what cannot be matched exactly: look-around, back-references, inline flags, `\b`.
 */
export function regexToExpr(pattern: string): Expr {
  return new RegexReader(pattern).read().whole();
}

/**
 * The texts that `pattern` matches somewhere, as JSON Schema's `pattern` means it. Look-ahead may stand after a `^` that the
 * pattern begins with: there it is a condition on the whole text.
 */
export function regexSearchToExpr(pattern: string): Expr {
  const make = () => new RegexReader(pattern).readSearch();
  return pattern.length > MAX_SHARED_LENGTH ? make() : searches.get(pattern, make);
}

class RegexReader {
  private readonly characters: readonly string[];
  private readonly known = new Map<string, Anchored>();
  private at = 0;
  private depth = 0;

  constructor(pattern: string) {
    spend(READ_COST * pattern.length);
    this.characters = [...pattern];
  }

  read(): Anchored {
    const result = this.alternatives();
    if (this.at < this.characters.length) throw this.error('unmatched ")"');
    return result;
  }

  readSearch(): Expr {
    const conditions: Expr[] = [];
    if (this.takes("^")) {
      for (let ahead = this.lookAhead(); ahead !== null; ahead = this.lookAhead()) conditions.push(ahead);
    }
    if (conditions.length === 0) {
      this.at = 0;
      return this.read().search();
    }
    const rest = this.sequence();
    if (this.next === "|") throw this.error("look-ahead beside alternatives is not supported");
    if (this.at < this.characters.length) throw this.error('unmatched ")"');
    return and(Anchored.sequence([Anchored.textStart, rest]).search(), ...conditions);
  }

  /** The texts that begin as a look-ahead at this place says; null: there is none. */
  private lookAhead(): Expr | null {
    const sign = this.characters.slice(this.at, this.at + 3).join("");
    if (sign !== "(?=" && sign !== "(?!") return null;
    this.at += sign.length;
    const begun = Anchored.sequence([Anchored.textStart, this.alternatives()]).search();
    if (!this.takes(")")) throw this.error('missing ")"');
    return sign === "(?=" ? begun : not(begun);
  }

  private alternatives(): Anchored {
    if (++this.depth > MAX_DEPTH) throw this.error(`groups are nested more than ${MAX_DEPTH} deep`);
    const found = [this.sequence()];
    while (this.takes("|")) found.push(this.sequence());
    this.depth--;
    return found.length === 1 ? found[0]! : Anchored.either(found);
  }

  private sequence(): Anchored {
    const items: Anchored[] = [];
    while (this.at < this.characters.length && this.next !== "|" && this.next !== ")") items.push(this.quantified());
    return Anchored.sequence(items);
  }

  /** What is written alike is one expression. */
  private quantified(): Anchored {
    const begin = this.at;
    const found = this.newQuantified();
    const length = this.at - begin;
    if (length === 1 || length > MAX_SHARED_LENGTH) return found;
    const source = this.characters.slice(begin, this.at).join("");
    const known = this.known.get(source);
    if (known === undefined) this.known.set(source, found);
    return known ?? found;
  }

  private newQuantified(): Anchored {
    const begin = this.at;
    const item = this.atom();
    const count = this.quantifier();
    if (count === null) return item;
    this.takes("?");
    if (this.next === "+") throw this.error("possessive quantifiers are not supported");
    if (this.next === "*" || this.next === "?" || this.readsCount() !== null) throw this.error("nothing to repeat");
    if (item === Anchored.textStart || item === Anchored.textEnd) throw this.error("an anchor cannot be repeated");
    const repeated = item.repeated(count[0], count[1]);
    if (repeated !== null) return repeated;
    this.at = begin;
    throw this.error("an anchor inside a repetition is not supported");
  }

  private quantifier(): [min: number, max: number] | null {
    if (this.takes("*")) return [0, -1];
    if (this.takes("+")) return [1, -1];
    if (this.takes("?")) return [0, 1];
    const count = this.readsCount();
    if (count === null) return null;
    this.at += count.length;
    if (count.max !== -1 && count.max < count.min) throw this.error("the numbers of a quantifier are out of order");
    if (Math.max(count.min, count.max) > MAX_REPETITIONS) {
      throw this.error(`more than ${MAX_REPETITIONS} repetitions are not supported`);
    }
    return [count.min, count.max];
  }

  /** `{2}`, `{2,}`, `{2,5}` or `{,5}` at this place; null: none, a brace then stands for itself. */
  private readsCount(): { min: number; max: number; length: number } | null {
    if (this.next !== "{") return null;
    const ahead = this.characters.slice(this.at, this.at + MAX_COUNT_LENGTH);
    const close = ahead.indexOf("}");
    if (close < 0) return null;
    const inside = ahead.slice(1, close).join("");
    const match = /^(\d*)(,?)(\d*)$/.exec(inside);
    if (match === null || inside === "" || inside === ",") return null;
    const [, low, comma, high] = match as unknown as [string, string, string, string];
    const min = low === "" ? 0 : Number(low);
    const max = comma === "" ? min : high === "" ? -1 : Number(high);
    return { min, max, length: close + 1 };
  }

  private atom(): Anchored {
    const character = this.take();
    switch (character) {
      case "^":
        return Anchored.textStart;
      case "$":
        return Anchored.textEnd;
      case ".":
        return one(DOT);
      case "(":
        return this.group();
      case "[":
        return one(this.characterClass());
      case "\\":
        return this.escape();
      case "*":
      case "+":
      case "?":
        this.at--;
        throw this.error("nothing to repeat");
      case "{":
        this.at--;
        if (this.readsCount() !== null) throw this.error("nothing to repeat");
        this.at++;
        return literal("{");
      default:
        return literal(character);
    }
  }

  private group(): Anchored {
    if (this.takes("?")) this.groupKind();
    const inner = this.alternatives();
    if (!this.takes(")")) throw this.error('missing ")"');
    return inner;
  }

  /** What follows `(?`: only groups that capture or just group are regular. */
  private groupKind(): void {
    const rest = this.characters.slice(this.at, this.at + 3).join("");
    if (this.takes(":")) return;
    if (/^[=!]/.test(rest)) throw this.error("look-ahead is not supported");
    if (/^<[=!]/.test(rest)) throw this.error("look-behind is not supported");
    if (rest.startsWith("P=")) throw this.error("back-references are not supported");
    if (rest.startsWith(">")) throw this.error("atomic groups are not supported");
    if (rest.startsWith("(")) throw this.error("conditional groups are not supported");
    if (rest.startsWith("#")) throw this.error("comments are not supported");
    if (rest.startsWith("P<")) this.at++;
    if (!this.takes("<")) throw this.error("inline flags are not supported");
    const close = this.characters.indexOf(">", this.at);
    const name = close < 0 ? "" : this.characters.slice(this.at, close).join("");
    if (!/^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(name)) throw this.error("a group has no valid name");
    this.at = close + 1;
  }

  private escape(): Anchored {
    const letter = this.next;
    if (letter === "b" || letter === "B") throw this.error("word boundaries are not supported");
    if (letter === "A") return this.skip(Anchored.textStart);
    if (letter === "Z" || letter === "z") return this.skip(Anchored.textEnd);
    if (letter !== undefined && /[1-9]/.test(letter)) throw this.error("back-references are not supported");
    if (letter === "k") throw this.error("back-references are not supported");
    return one(this.escapedSet());
  }

  private skip<T>(value: T): T {
    this.at++;
    return value;
  }

  /** After a backslash: a class, or one character. */
  private escapedSet(): readonly Range[] {
    const letter = this.next;
    if (letter === undefined) throw this.error("ends in a backslash");
    const known = classOfLetter(letter);
    if (known !== undefined) return this.skip(known);
    if (letter === "p" || letter === "P") return this.property();
    const code = this.escapedCharacter();
    return [[code, code]];
  }

  private property(): readonly Range[] {
    const isNegated = this.take() === "P";
    const close = this.takes("{") ? this.characters.indexOf("}", this.at) : -1;
    const name = close < 0 ? "" : this.characters.slice(this.at, close).join("");
    const ranges = propertyRanges(name);
    if (ranges === null) throw this.error(`no Unicode property is named "${name}"`);
    this.at = close + 1;
    return isNegated ? complement(ranges) : ranges;
  }

  private escapedCharacter(): number {
    const letter = this.take();
    const control = CONTROL_ESCAPES.get(letter);
    if (control !== undefined) return control;
    switch (letter) {
      case "0":
        if (/^\d$/.test(this.next ?? "")) throw this.error("octal escapes are not supported");
        return 0;
      case "x":
        return this.hex(2);
      case "u":
        return this.unicode();
      case "U":
        return this.hex(8);
      case "c": {
        const control = this.next ?? "";
        if (!/^[A-Za-z]$/.test(control)) throw this.error("\\c needs a letter");
        return this.skip(control.charCodeAt(0) % 32);
      }
    }
    if (/^[A-Za-z0-9]$/.test(letter)) throw this.error(`\\${letter} is not supported`);
    return letter.codePointAt(0)!;
  }

  /** `\u00e9`, `\ud83d\ude00` or `\u{1f600}`. */
  private unicode(): number {
    if (this.takes("{")) {
      const close = this.characters.indexOf("}", this.at);
      const digits = close < 0 ? "" : this.characters.slice(this.at, close).join("");
      const code = /^[0-9A-Fa-f]{1,8}$/.test(digits) ? Number.parseInt(digits, 16) : Number.POSITIVE_INFINITY;
      if (code > 0x10ffff) throw this.error("not a valid Unicode escape");
      this.at = close + 1;
      return code;
    }
    const high = this.hex(4);
    const follows = this.characters.slice(this.at, this.at + 6).join("");
    if (high < 0xd800 || high > 0xdbff || !/^\\u[dD][c-fC-F][0-9A-Fa-f]{2}$/.test(follows)) return high;
    this.at += 2;
    return 0x10000 + ((high - 0xd800) << 10) + (this.hex(4) - 0xdc00);
  }

  private hex(length: number): number {
    const digits = this.characters.slice(this.at, this.at + length).join("");
    const code = Number.parseInt(digits, 16);
    if (!/^[0-9A-Fa-f]+$/.test(digits) || digits.length !== length || code > 0x10ffff) {
      throw this.error("not a valid hexadecimal escape");
    }
    this.at += length;
    return code;
  }

  private characterClass(): readonly Range[] {
    const isNegated = this.takes("^");
    if (this.next === "]") throw this.error('a class may not begin with "]"; write "\\]"');
    const ranges: Range[] = [];
    while (!this.takes("]")) {
      if (this.next === "[" && this.characters[this.at + 1] === ":") {
        throw this.error("POSIX classes are not supported");
      }
      const low = this.classAtom();
      const isRange = this.next === "-" && this.characters[this.at + 1] !== "]";
      if (!isRange) {
        ranges.push(...low);
        continue;
      }
      this.at++;
      const high = this.classAtom();
      const from = single(low);
      const to = single(high);
      // Beside a class such as \w a hyphen stands for itself.
      if (from === null || to === null) ranges.push(...low, [0x2d, 0x2d], ...high);
      else if (from > to) throw this.error("a range of characters is out of order");
      else ranges.push([from, to]);
    }
    return isNegated ? complement(ranges) : ranges;
  }

  private classAtom(): readonly Range[] {
    const character = this.take();
    if (character !== "\\") return [[character.codePointAt(0)!, character.codePointAt(0)!]];
    if (this.takes("b")) return [[8, 8]];
    if (/^[1-9]$/.test(this.next ?? "")) throw this.error("octal escapes are not supported");
    return this.escapedSet();
  }

  private get next(): string | undefined {
    return this.characters[this.at];
  }

  private take(): string {
    const character = this.characters[this.at];
    if (character === undefined) throw this.error("ends too early");
    this.at++;
    return character;
  }

  private takes(character: string): boolean {
    if (this.next !== character) return false;
    this.at++;
    return true;
  }

  private error(message: string): GrammarError {
    return new GrammarError(`at position ${this.at} of the regular expression: ${message}`);
  }
}

/** Sets with a name, which are the same objects each time. */
const knownSets = new WeakMap<readonly Range[], Anchored>();

function one(ranges: readonly Range[]): Anchored {
  let found = knownSets.get(ranges);
  if (found === undefined) {
    found = Anchored.plain(chars(...ranges), false);
    knownSets.set(ranges, found);
  }
  return found;
}

function literal(character: string): Anchored {
  return Anchored.plain(text(character), false);
}

/** The character of a set of one; null for a class. */
function single(ranges: readonly Range[]): number | null {
  const [range] = ranges;
  return ranges.length === 1 && range![0] === range![1] ? range![0] : null;
}
