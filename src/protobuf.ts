// Messages of protocol buffers, written and read field by field. Large fields are streamed: only their length must be known beforehand.

/** Bytes that are made when the message is written. */
export interface Stream {
  readonly bytes: number;
  blocks(): AsyncIterable<Uint8Array>;
}

const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

/** Of a message as it was received: a whole number, or the bytes of anything else. */
export type Field = { field: number; integer: number } | { field: number; bytes: Uint8Array };

const encoder = new TextEncoder();

export class Message {
  /** In order. */
  readonly parts: (Uint8Array | Stream)[] = [];
  /** Of all parts. */
  bytes = 0;

  /** A whole number; negative ones as 64 bits. */
  integer(field: number, value: number | bigint): this {
    return this.add(varint(tag(field, VARINT))).add(varint(value));
  }

  float(field: number, value: number): this {
    return this.add(varint(tag(field, FIXED32))).add(new Uint8Array(Float32Array.of(value).buffer));
  }

  text(field: number, value: string): this {
    return this.data(field, encoder.encode(value));
  }

  /** A repeated number in one field. */
  packed(field: number, values: readonly number[]): this {
    const numbers = new Message();
    for (const value of values) numbers.add(varint(value));
    return this.message(field, numbers);
  }

  data(field: number, value: Uint8Array | Stream): this {
    return this.add(varint(tag(field, LENGTH_DELIMITED)))
      .add(varint(sizeOf(value)))
      .add(value);
  }

  message(field: number, value: Message): this {
    this.add(varint(tag(field, LENGTH_DELIMITED))).add(varint(value.bytes));
    for (const part of value.parts) this.add(part);
    return this;
  }

  /** Of a message without streams. */
  toBytes(): Uint8Array {
    return Buffer.concat(this.parts as Uint8Array[]);
  }

  private add(part: Uint8Array | Stream): this {
    this.parts.push(part);
    this.bytes += sizeOf(part);
    return this;
  }
}

const tag = (field: number, type: number) => field * 8 + type;

const sizeOf = (part: Uint8Array | Stream) => (part instanceof Uint8Array ? part.byteLength : part.bytes);

function varint(value: number | bigint): Uint8Array {
  const bytes: number[] = [];
  if (typeof value === "number" && value >= 0 && value < 2 ** 31) {
    let rest = value;
    for (; rest > 127; rest >>>= 7) bytes.push((rest & 127) | 128);
    bytes.push(rest);
    return Uint8Array.from(bytes);
  }
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

/** The fields of a message in the order in which they stand. @throws RangeError for bytes that are none. */
export function* readFields(message: Uint8Array): Generator<Field> {
  let at = 0;
  const integer = (): number => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++];
      if (byte === undefined || shift > 63n) throw new RangeError("a number has no end");
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  };
  const bytes = (length: number): Uint8Array => {
    at += length;
    if (length < 0 || at > message.length) throw new RangeError("a field has no end");
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const key = integer();
    const field = Math.floor(key / 8);
    const type = key % 8;
    if (type === VARINT) yield { field, integer: integer() };
    else if (type === LENGTH_DELIMITED) yield { field, bytes: bytes(integer()) };
    else if (type === FIXED64) yield { field, bytes: bytes(8) };
    else if (type === FIXED32) yield { field, bytes: bytes(4) };
    else throw new RangeError(`a field has the unknown type ${type}`);
  }
}
