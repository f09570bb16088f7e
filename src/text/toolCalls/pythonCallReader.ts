// `name(key=value, ...)`: a call of Python with keyword arguments, whose values are literals.

import { isJson } from "../../json.js";
import { MAX_DEPTH, ProgramReader, type Reading } from "./callReader.js";

const CONSTANTS: Readonly<Record<string, string>> = {
  True: "true",
  False: "false",
  None: "null",
  // Models mix them up with JSON's.
  true: "true",
  false: "false",
  null: "null",
};

/** What a constant or a number of Python or JSON is in JSON; null: the word is neither. */
export function constantJson(word: string): string | null {
  if (Object.hasOwn(CONSTANTS, word)) return CONSTANTS[word]!;
  const number = word
    .replaceAll("_", "")
    .replace(/^\+/, "")
    .replace(/^(-?)\./, "$10.")
    .replace(/\.(?!\d)/, ".0");
  return /^-?\d/.test(number) && isJson(number) ? number : null;
}

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", a: "\x07", v: "\v", "0": "\0" },
  ...{ "\\": "\\", "'": "'", '"': '"', "\n": "" },
};
/** Hexadecimal digits of a character's number. */
const NUMBERED: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

export class PythonCallReader extends ProgramReader {
  protected *read(): Reading {
    // Functions and parameters are called what nothing in Python may be.
    const name = yield* this.word(/[\w.-]/);
    if (name === "" || !this.at("(")) this.fail();
    this.name = name;
    yield* this.advance();
    yield* this.skipSpace();
    let opening = "{";
    while (!this.at(")")) {
      const key = (yield* this.word(/[^=,()[\]{}"']/)).trimEnd();
      if (key === "") this.fail();
      yield* this.expect("=");
      yield* this.skipSpace();
      this.give(`${opening}${JSON.stringify(key)}: `);
      opening = ", ";
      yield* this.value(0);
      yield* this.comma(")");
    }
    this.give(opening === "{" ? "{}" : "}");
  }

  protected *value(depth: number): Reading {
    if (depth > MAX_DEPTH) this.fail();
    if (this.at('"') || this.at("'")) yield* this.string();
    else if (this.at("[")) {
      yield* this.members("[", "]", () => this.value(depth + 1));
      yield* this.advance();
    } else if (this.at("{")) {
      yield* this.members("{", "}", () => this.member(depth + 1));
      yield* this.advance();
    } else this.give(yield* this.constant());
  }

  /** Of a dictionary. */
  private *member(depth: number): Reading {
    if (!this.at('"') && !this.at("'")) this.fail();
    yield* this.string();
    yield* this.skipSpace();
    yield* this.expect(":");
    yield* this.skipSpace();
    this.give(": ");
    yield* this.value(depth);
  }

  private *constant(): Reading<string> {
    return constantJson(yield* this.word(/[\w.+-]/)) ?? this.fail();
  }

  private *string(): Reading {
    const quote = this.current;
    this.give('"');
    yield* this.advance();
    let quotes = 1;
    while (quotes < 3 && this.at(quote)) {
      quotes++;
      yield* this.advance();
    }
    // Two are an empty string, three begin one of several lines.
    if (quotes !== 2) yield* this.stringTo(quote.repeat(quotes));
    this.endText();
    this.give('"');
  }

  private *stringTo(end: string): Reading {
    let quotes = "";
    while (quotes !== end) {
      if (this.at(end[0]!)) {
        quotes += this.current;
      } else {
        this.giveText(quotes);
        quotes = "";
        if (this.at("\\")) this.giveText(yield* this.escape());
        else this.giveText(this.current);
      }
      yield* this.advance();
    }
  }

  /** Ends at its last character. */
  private *escape(): Reading<string> {
    yield* this.advance();
    const kind = this.current;
    const digits = NUMBERED[kind];
    if (digits === undefined) return Object.hasOwn(ESCAPES, kind) ? ESCAPES[kind]! : `\\${kind}`;
    let code = "";
    while (code.length < digits) {
      yield* this.advance();
      if (!/[\da-f]/i.test(this.current)) this.fail();
      code += this.current;
    }
    const number = Number.parseInt(code, 16);
    if (number > 0x10ffff) this.fail();
    return String.fromCodePoint(number);
  }
}
