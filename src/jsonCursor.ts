// A walk over the bytes of a JSON text: what is wanted of it is made into values, the rest is passed over.

import { isUtf8 } from "node:buffer";
import { type ExactFields, parseJsonText } from "./json.js";
import {
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  endOfString,
  isSpace,
  MAX_DEPTH,
  markLength,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
} from "./jsonBytes.js";

/** What one value may hold; told from its bytes, before it is made. */
export interface ValueLimits {
  bytes: number;
  /** Objects and lists. */
  containers: number;
}

/** A value beyond its limits. */
export class LargeValueError extends Error {}

/**
 * Stands before a value. Whoever walks over fields or elements takes or skips the value of each before the next. What is
 * skipped is not checked.
 * Everything throws SyntaxError where the text is not JSON.
 */
export class JsonCursor {
  /** In bytes. */
  at: number;

  constructor(private readonly bytes: Buffer) {
    this.at = markLength(bytes);
  }

  isObject(): boolean {
    return this.peek() === OPEN_OBJECT;
  }

  isList(): boolean {
    return this.peek() === OPEN_LIST;
  }

  /** The names of the object's fields. */
  *fields(): Generator<string> {
    if (this.peek() !== OPEN_OBJECT) this.fail("expected an object");
    this.at++;
    if (this.isEnd(CLOSE_OBJECT)) return;
    do {
      if (this.peek() !== QUOTE) this.fail("expected a field name");
      const name = this.parse(this.at, this.endOfString(this.at)) as string;
      if (this.peek() !== COLON) this.fail('expected ":"');
      this.at++;
      yield name;
    } while (!this.isLast(CLOSE_OBJECT));
  }

  /** The indices of the list's elements. */
  *elements(): Generator<number> {
    if (this.peek() !== OPEN_LIST) this.fail("expected a list");
    this.at++;
    if (this.isEnd(CLOSE_LIST)) return;
    let index = 0;
    do yield index++;
    while (!this.isLast(CLOSE_LIST));
  }

  /** The value, made. @throws LargeValueError */
  value(limits: ValueLimits, exact: ExactFields = {}): unknown {
    this.peek();
    const start = this.at;
    return this.parse(start, this.endOfValue(limits), exact);
  }

  skip(): void {
    this.peek();
    this.at = this.endOfValue();
  }

  /** After the outermost value. */
  end(): void {
    if (this.peek() !== undefined) this.fail("text after the value");
  }

  /** The next byte that is no white space; it stays where it is. */
  private peek(): number | undefined {
    for (;;) {
      const byte = this.bytes[this.at];
      if (!isSpace(byte)) return byte;
      this.at++;
    }
  }

  private isEnd(closing: number): boolean {
    if (this.peek() !== closing) return false;
    this.at++;
    return true;
  }

  /** Consumes a comma (false) or the closing byte (true). */
  private isLast(closing: number): boolean {
    const byte = this.peek();
    if (byte !== closing && byte !== COMMA) this.fail('expected "," or the end');
    this.at++;
    return byte === closing;
  }

  private parse(start: number, end: number, exact: ExactFields = {}): unknown {
    const piece = this.bytes.subarray(start, end);
    if (!isUtf8(piece)) this.fail("the text is not UTF-8");
    let value: unknown;
    try {
      value = parseJsonText(piece.toString(), exact);
    } catch (error) {
      this.fail((error as Error).message);
    }
    this.at = end;
    return value;
  }

  private endOfValue(limits?: ValueLimits): number {
    const { bytes } = this;
    const start = this.at;
    const most = Math.min(bytes.length, start + (limits?.bytes ?? bytes.length));
    const maxContainers = limits?.containers ?? Number.POSITIVE_INFINITY;
    let depth = 0;
    let containers = 0;
    for (let at = start; at < most; at++) {
      switch (bytes[at]) {
        case QUOTE:
          at = this.endOfString(at) - 1;
          if (depth === 0) return at < most ? at + 1 : this.tooLong(most);
          break;
        case OPEN_LIST:
        case OPEN_OBJECT:
          if (++containers > maxContainers) {
            throw new LargeValueError(`holds more than ${maxContainers} objects and lists`);
          }
          if (++depth > MAX_DEPTH) this.fail(`nested more than ${MAX_DEPTH} deep`);
          break;
        case CLOSE_LIST:
        case CLOSE_OBJECT:
          if (depth === 0) return at;
          if (--depth === 0) return at + 1;
          break;
        case COMMA:
          if (depth === 0) return at;
      }
    }
    if (most === bytes.length && depth === 0) return most;
    return this.tooLong(most);
  }

  private tooLong(most: number): never {
    if (most === this.bytes.length) this.fail("unexpected end", most);
    throw new LargeValueError(`is longer than ${most - this.at} bytes`);
  }

  /** Past the closing quote of the string that begins at `start`. */
  private endOfString(start: number): number {
    return endOfString(this.bytes, start) ?? this.fail("unterminated string", start);
  }

  private fail(message: string, at = this.at): never {
    throw new SyntaxError(`${message} (after byte ${at})`);
  }
}
