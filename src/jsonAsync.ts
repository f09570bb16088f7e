// JSON bodies of any size, read in pieces between which other work of the thread has its turn.

import { isUtf8 } from "node:buffer";
import { getHeapStatistics } from "node:v8";
import { ValidationError } from "./errors.js";
import { shouldYield, yieldToEventLoop } from "./eventLoop.js";
import { type ExactFields, ownField, parseJsonText, setField } from "./json.js";
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
import { MAX_OBJECT_FIELDS } from "./valueSize.js";

/** Bytes that are parsed at once: a matter of a millisecond. */
const PIECE = 65_536;

/**
 * Reads a JSON body of any size: the values, as JSON.parse gives them, but for numbers of `exact` whose spelling
 * says more.
 * @throws ValidationError of type "json_invalid"
 */
export async function parseJsonAsync(body: Buffer, exact: ExactFields = {}): Promise<unknown> {
  const reader = new PieceReader(body.subarray(markLength(body)));
  try {
    const pieces = reader.readAll(exact);
    for (;;) {
      const { done, value } = pieces.next();
      if (done) return value;
      while (shouldYield()) await yieldToEventLoop();
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const issue = { loc: ["body"], msg: `not valid JSON: ${error.message}`, type: "json_invalid" };
    throw new ValidationError([issue], { code: "json_invalid" });
  }
}

/**
 * Bytes of a body per list or object in it, at least, beyond the first ones: each takes up to 240 bytes of memory, however few of the
 * body. The shortest conversations have 20.
 */
const MIN_BYTES_PER_CONTAINER = 16;
const FREE_CONTAINERS = 2 ** 18;
/** Bytes of the heap there are for each, whatever the body's length. */
const HEAP_PER_CONTAINER = 256;

/** Bytes of white space in one place. */
const MAX_SPACE = 2 ** 20;

/** Yields after every piece. */
type Pieces<T> = Generator<void, T>;

class PieceReader {
  private at = 0;
  private depth = 0;
  /** Lists and objects so far. */
  private containers = 0;
  private readonly maxContainers: number;

  constructor(private readonly bytes: Buffer) {
    this.maxContainers = Math.min(
      FREE_CONTAINERS + bytes.length / MIN_BYTES_PER_CONTAINER,
      getHeapStatistics().heap_size_limit / HEAP_PER_CONTAINER,
    );
  }

  *readAll(exact: ExactFields): Pieces<unknown> {
    if (this.bytes.length <= PIECE) return this.parse(0, this.bytes.length, exact);
    const value = yield* this.value(exact);
    this.space();
    if (this.at < this.bytes.length) this.fail("text after the value");
    return value;
  }

  private *value(exact: ExactFields): Pieces<unknown> {
    this.space();
    const first = this.bytes[this.at];
    const end = this.endOfValue(this.at);
    if (end === null) return yield* first === OPEN_LIST ? this.list(exact) : this.object(exact);
    const value = this.parse(this.at, end, exact);
    this.at = end;
    yield;
    return value;
  }

  private *list(exact: ExactFields): Pieces<unknown[]> {
    const values: unknown[] = [];
    this.enter();
    for (let isFirst = true; ; isFirst = false) {
      const run = this.run(CLOSE_LIST);
      if (run !== null) {
        const some = this.parse(this.at, run.end, exact, "[", "]") as unknown[];
        if (some.length === 0 && !(isFirst && run.isLast)) this.fail("expected a value");
        for (const value of some) values.push(value);
        this.at = run.end + 1;
        yield;
        if (run.isLast) break;
      } else {
        values.push(yield* this.value(exact));
        if (this.separator(CLOSE_LIST)) break;
      }
    }
    this.depth--;
    return values;
  }

  private *object(exact: ExactFields): Pieces<Record<string, unknown>> {
    const object: Record<string, unknown> = {};
    let fields = 0;
    this.enter();
    for (let isFirst = true; ; isFirst = false) {
      const run = this.run(CLOSE_OBJECT);
      if (run !== null) {
        const some = this.parse(this.at, run.end, exact, "{", "}") as Record<string, unknown>;
        const members = Object.entries(some);
        if (members.length === 0 && !(isFirst && run.isLast)) this.fail("expected a field name");
        for (const [key, value] of members) setField(object, key, value);
        fields += members.length;
        if (fields > MAX_OBJECT_FIELDS) this.fail(`more than ${MAX_OBJECT_FIELDS} fields in an object`);
        this.at = run.end + 1;
        yield;
        if (run.isLast) break;
      } else {
        this.space();
        if (this.bytes[this.at] !== QUOTE) this.fail("expected a field name");
        const end = this.endOfString(this.at);
        const key = this.parse(this.at, end, {}) as string;
        this.at = end;
        this.space();
        if (this.bytes[this.at] !== COLON) this.fail('expected ":"');
        this.at++;
        setField(object, key, yield* this.value(ownField(exact, key)));
        if (this.separator(CLOSE_OBJECT)) break;
      }
    }
    this.depth--;
    return object;
  }

  /**
   * Whole entries from here on, as many as a piece holds: up to `end`, where a comma is, or the end of the list or object.
   * null: the next entry is longer than that.
   */
  private run(closing: number): { end: number; isLast: boolean } | null {
    const { bytes } = this;
    const most = Math.min(bytes.length, this.at + PIECE);
    let depth = 0;
    let opened = 0;
    let comma: number | null = null;
    let openedBefore = 0;
    for (let at = this.at; at < most; at++) {
      const byte = bytes[at]!;
      if (byte === QUOTE) at = this.endOfString(at) - 1;
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        this.checkDepth(++depth);
        opened++;
      } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
        if (depth === 0 && byte === closing) {
          this.count(opened);
          return { end: at, isLast: true };
        }
        depth--;
      } else if (byte === COMMA && depth === 0) {
        comma = at;
        openedBefore = opened;
      }
    }
    if (comma !== null) {
      this.count(openedBefore);
      return { end: comma, isLast: false };
    }
    if (most === bytes.length) this.fail("unexpected end", most);
    return null;
  }

  /** null: it is a list or an object longer than a piece. */
  private endOfValue(start: number): number | null {
    const { bytes } = this;
    const first = bytes[start];
    if (first === undefined) this.fail("unexpected end");
    if (first === QUOTE) return this.endOfString(start);
    const isNested = first === OPEN_LIST || first === OPEN_OBJECT;
    const most = Math.min(bytes.length, start + PIECE);
    let depth = 0;
    let opened = 0;
    for (let at = start; at < most; at++) {
      const byte = bytes[at]!;
      if (byte === QUOTE) at = this.endOfString(at) - 1;
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        this.checkDepth(++depth);
        opened++;
      } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
        if (depth-- === 0) return at;
        if (depth === 0 && isNested) {
          this.count(opened);
          return at + 1;
        }
      } else if (depth === 0 && (byte === COMMA || byte === COLON)) return at;
    }
    return isNested && most < bytes.length ? null : most;
  }

  /** Past the closing quote of the string that begins at `start`. */
  private endOfString(start: number): number {
    return endOfString(this.bytes, start) ?? this.fail("unterminated string", start);
  }

  private parse(start: number, end: number, exact: ExactFields, opening = "", closing = ""): unknown {
    const piece = this.bytes.subarray(start, end);
    if (!isUtf8(piece)) this.fail("the text is not UTF-8");
    try {
      return parseJsonText(opening + piece.toString() + closing, exact);
    } catch (error) {
      return this.fail((error as Error).message, start);
    }
  }

  private space(): void {
    for (const from = this.at; ; ) {
      if (this.at - from > MAX_SPACE) this.fail("too much white space");
      if (!isSpace(this.bytes[this.at])) return;
      this.at++;
    }
  }

  private enter(): void {
    this.at++;
    this.depth++;
    this.checkDepth(0);
    this.count(1);
  }

  /** Takes in so many lists and objects more. */
  private count(opened: number): void {
    this.containers += opened;
    if (this.containers > this.maxContainers) {
      this.fail(`more than ${Math.floor(this.maxContainers)} lists and objects, which is too many for its length`);
    }
  }

  /** Of what lies so deep within what has been entered: what is too deep is never looked at once more from each level. */
  private checkDepth(within: number): void {
    if (this.depth + within > MAX_DEPTH) this.fail(`nested more than ${MAX_DEPTH} deep`);
  }

  /** Consumes a comma (false) or the closing byte (true). */
  private separator(closing: number): boolean {
    this.space();
    const byte = this.bytes[this.at];
    if (byte !== closing && byte !== COMMA) this.fail('expected "," or the end');
    this.at++;
    return byte === closing;
  }

  private fail(message: string, at = this.at): never {
    throw new SyntaxError(this.bytes.length <= PIECE ? message : `${message} (after byte ${at})`);
  }
}
