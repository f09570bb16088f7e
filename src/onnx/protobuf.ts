// Messages of protocol buffers, written field by field. Large fields are streamed: only their length must be known beforehand.

/** Bytes that are made when the message is written. */
export interface Stream {
  readonly bytes: number;
  blocks(): AsyncIterable<Uint8Array>;
}

const VARINT = 0;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

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
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}
