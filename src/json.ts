// JSON text to values without losing what a number's spelling says. Not with lossless-json: it reads every text at less than half the
// speed of the reader below, which only texts with such numbers need, and has no bound on depth.

import { CLOSE_LIST, CLOSE_OBJECT, COLON, COMMA, MAX_DEPTH, OPEN_LIST, OPEN_OBJECT, QUOTE } from "./jsonBytes.js";

/**
 * What of a number's spelling is kept where it says more than the number: "integers", those beyond 2^53, as bigint;
 * "floats", these and whole numbers with a fraction or exponent (`1.0`, `1e3`), as Number objects, which JSON.stringify,
 * structuredClone and arithmetic take as numbers; "spellings", those integers, and as SpelledNumber all other numbers that would be
 * written in another way (`1.0`, `1.50`, `1e400`).
 */
export type Exactness = "integers" | "floats" | "spellings";

/** A number that is written as it was read; where only its value counts, as a Number object. */
export class SpelledNumber extends Number {
  constructor(readonly spelling: string) {
    super(spelling);
  }

  /** Whether a double is near it: it is neither too large for one nor so small that its double is 0. */
  get isDouble(): boolean {
    const value = this.valueOf();
    return Number.isFinite(value) && (value !== 0 || !/^[^eE]*[1-9]/.test(this.spelling));
  }
}

/** Of a value, at any depth, or of fields of an object, or of every object of a list. */
export type ExactFields = Exactness | { readonly [field: string]: ExactFields };

// In strings digits mostly follow other characters.
const LONG_INTEGER = /(?:^|[:[,])\s*-?\d{16}/;
/** Long, or with a fraction that ends in 0 or is tiny, or with an exponent. */
const RESPELLED = /(?:^|[:[,])\s*-?(?:\d[\d.]{15}|\d+\.\d*0(?!\d)|0\.0{6}|\d+(?:\.\d+)?[eE][+-]?\d)/;
const WHOLE_FLOAT = /(?:^|[:[,\s])-?\d+(?:\.0+|(?:\.\d+)?[eE][+-]?\d+)\s*(?:$|[,\]}])/;

/** Of what was read: numbers may be objects too. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Number);
}

/** Of a file's text: some editors begin it with the mark, which is no JSON. */
export function withoutByteOrderMark(text: string): string {
  return text.replace(/^\uFEFF/, "");
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** @throws SyntaxError */
export function parseJsonText(text: string, exact: ExactFields): unknown {
  return maySayMore(text, exact) ? new JsonReader(Buffer.from(text)).readAll(exact) : (JSON.parse(text) as unknown);
}

function maySayMore(text: string, exact: ExactFields): boolean {
  if (exact === "spellings") return RESPELLED.test(text);
  if (exact === "floats") return LONG_INTEGER.test(text) || WHOLE_FLOAT.test(text);
  if (exact === "integers") return LONG_INTEGER.test(text);
  return Object.entries(exact).some(([field, within]) => text.includes(`"${field}"`) && maySayMore(text, within));
}

/** What is said of a field. */
export function ownField(exact: ExactFields, key: string): ExactFields {
  if (typeof exact === "string") return exact;
  return Object.hasOwn(exact, key) ? exact[key]! : {};
}

/**
 * JSON text of plain data in which numbers may be as `parseJsonText` reads them, each as it was spelled. `indent`: spaces a level, as
 * JSON.stringify has them.
 */
export function jsonText(value: unknown, indent = 0): string {
  return hasExactNumbers(value) ? spelledJson(value, indent, "\n") : JSON.stringify(value, null, indent);
}

/** `line`: the new line and the spaces before what closes it. */
function spelledJson(value: unknown, indent: number, line: string): string {
  if (typeof value === "bigint") return String(value);
  if (value instanceof SpelledNumber) return value.spelling;
  if (typeof value !== "object" || value === null || value instanceof Number) return JSON.stringify(value);
  const inner = line + " ".repeat(indent);
  const between = (open: string, items: readonly string[], close: string) =>
    indent === 0 || items.length === 0
      ? `${open}${items.join(",")}${close}`
      : `${open}${inner}${items.join(`,${inner}`)}${line}${close}`;
  const text = (item: unknown) => spelledJson(item, indent, inner);
  if (Array.isArray(value)) {
    return between(
      "[",
      value.map((item) => (item === undefined ? "null" : text(item))),
      "]",
    );
  }
  const said = Object.entries(value).filter(([, item]) => item !== undefined);
  const colon = indent === 0 ? ":" : ": ";
  return between(
    "{",
    said.map(([key, item]) => `${JSON.stringify(key)}${colon}${text(item)}`),
    "}",
  );
}

/**
 * With numbers for Number objects, a copy where there are some: NaN for those that no double is near. `spellings` gets the first
 * spelling of each number.
 */
export function withoutSpellings(value: unknown, spellings: Map<number, string>): unknown {
  return hasExactNumbers(value) ? copyWithoutSpellings(value, spellings) : value;
}

function hasExactNumbers(value: unknown): boolean {
  if (typeof value === "bigint" || value instanceof Number) return true;
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return value.some(hasExactNumbers);
  for (const key in value) if (hasExactNumbers((value as Record<string, unknown>)[key])) return true;
  return false;
}

function copyWithoutSpellings(value: unknown, spellings: Map<number, string>): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof SpelledNumber) {
    if (!value.isDouble) return Number.NaN;
    const number = value.valueOf();
    if (!spellings.has(number)) spellings.set(number, value.spelling);
    return number;
  }
  if (value instanceof Number) return value.valueOf();
  if (Array.isArray(value)) return value.map((item) => copyWithoutSpellings(item, spellings));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, copyWithoutSpellings(item, spellings)]));
}

/** What `JSON.parse` found wrong, without the piece of the text that it quotes. */
export function jsonReason(error: unknown): string {
  return (error as Error).message.replace(/^Unexpected token.*$/s, "there is an unexpected character");
}

const backslash = 0x5c;
const numberGrammar = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** Recursive descent over the bytes, for numbers whose spelling matters. */
class JsonReader {
  readonly #bytes: Buffer;
  #at = 0;
  #depth = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  readAll(exact: ExactFields): unknown {
    const value = this.#value(exact);
    this.#space();
    if (this.#at < this.#bytes.length) this.#fail("text after the value");
    return value;
  }

  #fail(message: string): never {
    throw new SyntaxError(`${message} at byte ${this.#at}`);
  }

  #space(): void {
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
      this.#at++;
    }
  }

  /** The next byte that is not a space; it is not consumed. */
  #peek(): number | undefined {
    this.#space();
    return this.#bytes[this.#at];
  }

  #value(exact: ExactFields): unknown {
    const first = this.#peek();
    if (this.#depth === MAX_DEPTH && (first === OPEN_LIST || first === OPEN_OBJECT)) return this.#tooDeep();
    switch (first) {
      case OPEN_OBJECT:
        return this.#object(exact);
      case OPEN_LIST:
        return this.#array(exact);
      case QUOTE:
        return this.#string();
      case 0x74:
        return this.#literal("true", true);
      case 0x66:
        return this.#literal("false", false);
      case 0x6e:
        return this.#literal("null", null);
      case undefined:
        return this.#fail("unexpected end");
      default:
        return this.#number(exact);
    }
  }

  #literal<T>(text: string, value: T): T {
    if (this.#bytes.toString("latin1", this.#at, this.#at + text.length) !== text) this.#fail("unexpected character");
    this.#at += text.length;
    return value;
  }

  #number(exact: ExactFields): number | bigint | object {
    const start = this.#at;
    for (;;) {
      const byte = this.#bytes[this.#at] ?? 0;
      const isPart = (byte >= 0x30 && byte <= 0x39) || [0x2b, 0x2d, 0x2e, 0x45, 0x65].includes(byte);
      if (!isPart) break;
      this.#at++;
    }
    const text = this.#bytes.toString("latin1", start, this.#at);
    if (!numberGrammar.test(text)) {
      this.#at = start;
      this.#fail("unexpected character");
    }
    const value = Number(text);
    if (typeof exact !== "string") return value;
    if (/^-?\d+$/.test(text)) return Number.isSafeInteger(value) ? value : BigInt(text);
    if (exact === "spellings" && String(value) !== text) return new SpelledNumber(text);
    return exact === "floats" && Number.isInteger(value) ? new Number(value) : value;
  }

  #string(): string {
    const start = this.#at;
    let escaped = false;
    for (let at = start + 1; ; at++) {
      const byte = this.#bytes[at];
      if (byte === undefined) this.#fail("unterminated string");
      if (byte < 0x20) {
        this.#at = at;
        this.#fail("control character in a string");
      }
      if (byte === backslash) {
        escaped = true;
        at++;
      } else if (byte === QUOTE) {
        this.#at = at + 1;
        if (!escaped) return this.#bytes.toString("utf8", start + 1, at);
        try {
          return JSON.parse(this.#bytes.toString("utf8", start, at + 1)) as string;
        } catch {
          this.#at = start;
          this.#fail("bad escape in the string");
        }
      }
    }
  }

  /** For the caller to refuse, who knows where it stands: its numbers are only numbers. */
  #tooDeep(): unknown {
    const start = this.#at;
    let open = 0;
    do {
      const byte = this.#peek();
      if (byte === undefined) this.#fail("unexpected end");
      if (byte === OPEN_LIST || byte === OPEN_OBJECT) open++;
      if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) open--;
      if (byte === QUOTE) this.#string();
      else this.#at++;
    } while (open > 0);
    return JSON.parse(this.#bytes.toString("utf8", start, this.#at)) as unknown;
  }

  #enter(): void {
    this.#at++;
    this.#depth++;
  }

  #array(exact: ExactFields): unknown[] {
    const values: unknown[] = [];
    this.#enter();
    if (this.#peek() === CLOSE_LIST) this.#at++;
    else {
      for (;;) {
        values.push(this.#value(exact));
        if (this.#separator(CLOSE_LIST)) break;
      }
    }
    this.#depth--;
    return values;
  }

  #object(exact: ExactFields): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    this.#enter();
    if (this.#peek() === CLOSE_OBJECT) this.#at++;
    else {
      for (;;) {
        if (this.#peek() !== QUOTE) this.#fail("expected a field name");
        const key = this.#string();
        if (this.#peek() !== COLON) this.#fail('expected ":"');
        this.#at++;
        setField(object, key, this.#value(ownField(exact, key)));
        if (this.#separator(CLOSE_OBJECT)) break;
      }
    }
    this.#depth--;
    return object;
  }

  /** Consumes a comma (false) or the closing byte (true). */
  #separator(closing: number): boolean {
    const byte = this.#peek();
    if (byte !== closing && byte !== COMMA) this.#fail('expected "," or the end');
    this.#at++;
    return byte === closing;
  }
}

/** As JSON.parse does: a field of the name "__proto__" is data, not the prototype. */
export function setField(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== "__proto__") object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}
