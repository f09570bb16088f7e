const deepest = 1000;

/**
 * Fields of the outermost object in which integers are read exactly, at any depth: as bigint where a number would round them.
 * "all": in every field.
 */
export type ExactFields = readonly string[] | "all";

/** @throws SyntaxError */
export function parseJsonText(text: string, exact: ExactFields): unknown {
  const isNamed = exact === "all" || exact.some((field) => text.includes(`"${field}"`));
  const mayRound = isNamed && /(^|[^\d.])\d{16}/.test(text);
  return mayRound ? new JsonReader(Buffer.from(text), exact).readAll() : (JSON.parse(text) as unknown);
}

/** What `JSON.parse` found wrong, without the piece of the text that it quotes. */
export function jsonReason(error: unknown): string {
  return (error as Error).message.replace(/^Unexpected token.*$/s, "there is an unexpected character");
}

const quote = 0x22;
const backslash = 0x5c;
const numberGrammar = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** Recursive descent over the bytes: for integers beyond 2^53. */
class JsonReader {
  readonly #bytes: Buffer;
  readonly #exact: ReadonlySet<string> | "all";
  #at = 0;
  #depth = 0;

  constructor(bytes: Buffer, exact: ExactFields) {
    this.#bytes = bytes;
    this.#exact = exact === "all" ? exact : new Set(exact);
  }

  readAll(): unknown {
    const value = this.#value(this.#exact === "all");
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

  #value(exact: boolean): unknown {
    switch (this.#peek()) {
      case 0x7b:
        return this.#object(exact);
      case 0x5b:
        return this.#array(exact);
      case quote:
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

  #number(exact: boolean): number | bigint {
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
    return exact && /^-?\d+$/.test(text) && !Number.isSafeInteger(value) ? BigInt(text) : value;
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
      } else if (byte === quote) {
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

  #enter(): void {
    this.#at++;
    if (++this.#depth > deepest) this.#fail(`nested more than ${deepest} deep`);
  }

  #array(exact: boolean): unknown[] {
    const values: unknown[] = [];
    this.#enter();
    if (this.#peek() === 0x5d) this.#at++;
    else {
      for (;;) {
        values.push(this.#value(exact));
        if (this.#separator(0x5d)) break;
      }
    }
    this.#depth--;
    return values;
  }

  #object(exact: boolean): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    this.#enter();
    if (this.#peek() === 0x7d) this.#at++;
    else {
      for (;;) {
        if (this.#peek() !== quote) this.#fail("expected a field name");
        const key = this.#string();
        if (this.#peek() !== 0x3a) this.#fail('expected ":"');
        this.#at++;
        const value = this.#value(exact || (this.#depth === 1 && this.#exact !== "all" && this.#exact.has(key)));
        // As JSON.parse does: a field of this name is data, not the prototype.
        if (key === "__proto__") {
          Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
        } else {
          object[key] = value;
        }
        if (this.#separator(0x7d)) break;
      }
    }
    this.#depth--;
    return object;
  }

  /** Consumes a comma (false) or the closing byte (true). */
  #separator(closing: number): boolean {
    const byte = this.#peek();
    if (byte !== closing && byte !== 0x2c) this.#fail('expected "," or the end');
    this.#at++;
    return byte === closing;
  }
}
