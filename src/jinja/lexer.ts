// Template source to tokens, with Jinja2's whitespace rules (trim_blocks and lstrip_blocks on).

import { TemplateError } from "./errors.js";

export type TokenKind =
  | "text"
  | "printStart"
  | "printEnd"
  | "tagStart"
  | "tagEnd"
  | "name"
  | "string"
  | "integer"
  | "float"
  | "operator"
  | "end";

export interface Token {
  kind: TokenKind;
  /** The text of a name, an operator or a piece of text; a string's value; a number's digits without `_`. */
  value: string;
  line: number;
}

/** Longest first, so that the first match is the right one. */
const OPERATORS = [
  ..."** // == != <= >=".split(" "),
  ...["+", "-", "*", "/", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"],
];
const CLOSING: Record<string, string> = { "(": ")", "[": "]", "{": "}" };

const OPENING_TAG = /\{[%{#]/g;
const WHITESPACE = /\s*/y;
const NAME = /[\p{L}\p{Nl}_][\p{L}\p{N}\p{M}\p{Pc}]*/uy;
const STRING = /'(?:[^'\\]|\\[\s\S])*'|"(?:[^"\\]|\\[\s\S])*"/y;
const DIGITS = /\d+/y;
const PREFIXED_INTEGER = /0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+/y;
const NUMBER = /(?:\d+_)*\d+(?:\.(?:\d+_)*\d+)?(?:[eE][+-]?(?:\d+_)*\d+)?/y;
const RAW_START = /\s*raw\s*(-?)%\}/y;
const RAW_END = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/g;

export function tokenize(source: string): Token[] {
  return new Lexer(source).run();
}

class Lexer {
  private readonly source: string;
  private readonly tokens: Token[] = [];
  private position = 0;
  private line = 1;
  /** Whether the text at `position` begins a line; only then may lstrip take its leading blanks. */
  private atLineStart = true;

  constructor(source: string) {
    const lines = source.replace(/\r\n?/g, "\n");
    // Jinja2 drops one newline at the very end.
    this.source = lines.endsWith("\n") ? lines.slice(0, -1) : lines;
  }

  run(): Token[] {
    while (this.position < this.source.length) {
      OPENING_TAG.lastIndex = this.position;
      const opening = OPENING_TAG.exec(this.source);
      if (opening === null) {
        this.push("text", this.source.slice(this.position));
        break;
      }
      this.readTag(opening[0], opening.index);
    }
    this.push("end", "");
    return this.tokens;
  }

  private push(kind: TokenKind, value: string): void {
    if (kind !== "text" || value !== "") this.tokens.push({ kind, value, line: this.line });
  }

  private fail(reason: string): never {
    throw new TemplateError("syntax", reason, this.line);
  }

  /** The text before the tag at `start`, then the tag itself. */
  private readTag(opening: string, start: number): void {
    const sign = this.source[start + 2] === "-" || this.source[start + 2] === "+" ? this.source[start + 2]! : "";
    const text = this.source.slice(this.position, start);
    this.push("text", this.beforeTag(text, sign, opening !== "{{", this.atLineStart));
    this.moveTo(start + 2 + sign.length);
    if (opening === "{#") this.skipComment();
    else if (opening === "{{") this.readCode("printStart", "printEnd", "}}");
    else if (!this.readRaw()) this.readCode("tagStart", "tagEnd", "%}");
  }

  /** `-` takes all whitespace before a tag; a statement or comment takes the blanks of its own line, unless `+`. */
  private beforeTag(text: string, sign: string, isBlock: boolean, lineStart: boolean): string {
    if (sign === "-") return text.trimEnd();
    if (sign === "+" || !isBlock) return text;
    const lastLine = text.lastIndexOf("\n") + 1;
    const ownLine = lastLine > 0 || lineStart;
    return ownLine && text.slice(lastLine).trim() === "" ? text.slice(0, lastLine) : text;
  }

  /** Goes on at `position`, counting lines. */
  private moveTo(position: number): void {
    for (let at = this.position; at < position; at++) if (this.source[at] === "\n") this.line++;
    this.position = position;
  }

  /** Past the end of a tag: `-` takes the whitespace after it; a statement or comment takes one newline, unless `+`. */
  private afterTag(end: number, sign: string, takesNewline: boolean): void {
    let next = end;
    if (sign === "-") {
      WHITESPACE.lastIndex = end;
      next += WHITESPACE.exec(this.source)![0].length;
    } else if (takesNewline && sign !== "+" && this.source[end] === "\n") {
      next++;
    }
    this.moveTo(next);
    this.atLineStart = this.source[next - 1] === "\n";
  }

  private skipComment(): void {
    const end = this.source.indexOf("#}", this.position);
    if (end < 0) this.fail("a comment is not closed, expected '#}'");
    const last = end > this.position ? this.source[end - 1]! : "";
    this.afterTag(end + 2, last === "-" || last === "+" ? last : "", true);
  }

  private readRaw(): boolean {
    RAW_START.lastIndex = this.position;
    const start = RAW_START.exec(this.source);
    if (start === null) return false;
    this.afterTag(this.position + start[0].length, start[1]!, false);
    RAW_END.lastIndex = this.position;
    const end = RAW_END.exec(this.source);
    if (end === null) return this.fail("a raw block is not closed, expected '{% endraw %}'");
    const text = this.source.slice(this.position, end.index);
    this.push("text", this.beforeTag(text, end[1]!, true, this.atLineStart));
    this.afterTag(end.index + end[0].length, end[2]!, true);
    return true;
  }

  /** The tokens of a `{{ }}` or `{% %}`; its end inside brackets belongs to the expression (`{{ {'a': {}} }}`). */
  private readCode(start: TokenKind, end: TokenKind, closing: string): void {
    this.push(start, "");
    const open: string[] = [];
    for (;;) {
      WHITESPACE.lastIndex = this.position;
      this.moveTo(this.position + WHITESPACE.exec(this.source)![0].length);
      if (this.position >= this.source.length) this.fail(`unexpected end of template, expected '${closing}'`);
      const sign = open.length === 0 ? this.closingSign(closing) : null;
      if (sign !== null) {
        this.push(end, "");
        this.afterTag(this.position + sign.length + closing.length, sign, closing === "%}");
        return;
      }
      this.readToken(open);
    }
  }

  /** The sign of the tag end at the position, or null where none is. */
  private closingSign(closing: string): string | null {
    if (this.source.startsWith(closing, this.position)) return "";
    const sign = this.source[this.position]!;
    const allowed = sign === "-" || (sign === "+" && closing === "%}");
    return allowed && this.source.startsWith(closing, this.position + 1) ? sign : null;
  }

  private readToken(open: string[]): void {
    const character = this.source[this.position]!;
    if (character === "'" || character === '"') {
      const text = this.match(STRING) ?? this.fail("a string is not closed");
      this.push("string", this.unescape(text.slice(1, -1)));
      this.moveTo(this.position + text.length);
    } else if (character >= "0" && character <= "9") {
      this.readNumber();
    } else {
      const name = this.match(NAME);
      if (name !== null) {
        this.push("name", name);
        this.position += name.length;
      } else {
        this.readOperator(open);
      }
    }
  }

  private match(pattern: RegExp): string | null {
    pattern.lastIndex = this.position;
    return pattern.exec(this.source)?.[0] ?? null;
  }

  private readNumber(): void {
    const prefixed = this.match(PREFIXED_INTEGER);
    // After a dot only digits belong to the number: `a.0.1` is two lookups.
    const afterDot = this.source[this.position - 1] === ".";
    const text = prefixed ?? this.match(afterDot ? DIGITS : NUMBER)!;
    const digits = text.replaceAll("_", "");
    this.push(prefixed === null && /[.eE]/.test(digits) ? "float" : "integer", digits);
    this.position += text.length;
  }

  private readOperator(open: string[]): void {
    const operator = OPERATORS.find((candidate) => this.source.startsWith(candidate, this.position));
    if (operator === undefined) this.fail(`unexpected character ${JSON.stringify(this.source[this.position])}`);
    if (operator in CLOSING) open.push(CLOSING[operator]!);
    else if (")]}".includes(operator) && open.pop() !== operator) this.fail(`unexpected '${operator}'`);
    this.push("operator", operator);
    this.position += operator.length;
  }

  /** Python's escapes; an unknown one keeps its backslash. */
  private unescape(text: string): string {
    if (!text.includes("\\")) return text;
    return text.replace(
      /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|([\s\S]))/g,
      (whole, hex, unicode, long, octal, single) => {
        const digits: string | undefined = hex ?? unicode ?? long;
        if (digits !== undefined) return this.character(Number.parseInt(digits, 16));
        if (octal !== undefined) return this.character(Number.parseInt(octal, 8));
        if (single === "x" || single === "u" || single === "U") this.fail(`incomplete string escape '\\${single}'`);
        return SINGLE_ESCAPES[single] ?? whole;
      },
    );
  }

  private character(codePoint: number): string {
    if (codePoint > 0x10ffff) this.fail("a string escape names no character");
    return String.fromCodePoint(codePoint);
  }
}

const SINGLE_ESCAPES: Record<string, string> = {
  n: "\n",
  t: "\t",
  r: "\r",
  b: "\b",
  f: "\f",
  v: "\v",
  a: "\x07",
  "\n": "",
  "\\": "\\",
  '"': '"',
  "'": "'",
};
