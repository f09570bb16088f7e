// Rows and results as protocol buffers, which newer servers of Tinker's interface take and give in place of JSON. Field numbers are those
// of the messages that the interface's own client has; numbers of tensors are little-endian.

import { type Field, Message, readFields } from "../../protobuf.js";

type Json = Record<string, unknown>;

interface JsonTensor {
  data: number[];
  dtype: "int64" | "float32";
  shape: number[];
}

interface JsonDatum {
  model_input: { chunks: { tokens: number[] }[] };
  loss_fn_inputs: Record<string, JsonTensor>;
}

/** What `toTrain` and `toScore` make. */
export type LossInput = { loss_fn: string; data: JsonDatum[] };

/** Of a request, and so of its result. */
export const MAX_REQUEST_ROWS = 1024;

const DTYPES = { float32: 1, int64: 2, int32: 3, bfloat16: 4 } as const;

/** ForwardBackwardRequest. `sequence` is at least 1. */
export function encodePass(model: string, sequence: number, input: LossInput, isForwardOnly: boolean): Uint8Array {
  const message = new Message().text(1, model).integer(2, sequence);
  for (const { model_input, loss_fn_inputs } of input.data) {
    const datum = new Message();
    for (const { tokens } of model_input.chunks) {
      datum.message(1, new Message().message(1, new Message().data(1, bytesOf(Int32Array.from(tokens)))));
    }
    for (const [name, tensor] of Object.entries(loss_fn_inputs)) {
      datum.message(2, new Message().text(1, name).message(2, tensorMessage(tensor)));
    }
    message.message(3, datum);
  }
  message.text(4, input.loss_fn);
  if (isForwardOnly) message.integer(6, 1);
  return message.toBytes();
}

function tensorMessage({ data, dtype, shape }: JsonTensor): Message {
  const values = dtype === "int64" ? BigInt64Array.from(data, BigInt) : Float32Array.from(data);
  return new Message().data(1, bytesOf(values)).integer(3, DTYPES[dtype]).packed(4, shape);
}

const bytesOf = ({ buffer }: Int32Array | BigInt64Array | Float32Array) => new Uint8Array(buffer);

/** ForwardBackwardOutput, as JSON has it. @throws RangeError */
export function decodePass(message: Uint8Array): Json {
  const outputs: Record<string, { data: number[] }>[] = [];
  const metrics: Record<string, number> = {};
  for (const part of readFields(message)) {
    if (part.field === 2) outputs.push(...decodeRecord(bytesIn(part)));
    if (part.field === 3) {
      const [name, value] = entryIn(bytesIn(part));
      metrics[name] = new DataView(value.buffer, value.byteOffset, value.length).getFloat64(0, true);
    }
  }
  return { loss_fn_outputs: outputs, metrics };
}

/** ArrayRecord: of several rows, the values of each under one name stand one after the other. */
function decodeRecord(message: Uint8Array): Record<string, { data: number[] }>[] {
  const rows: Record<string, { data: number[] }>[] = [];
  const row = (at: number) => {
    if (at >= MAX_REQUEST_ROWS) throw new RangeError(`a record has ${at + 1} rows`);
    while (rows.length <= at) rows.push({});
    return rows[at]!;
  };
  for (const part of readFields(message)) {
    if (part.field === 3 && "integer" in part && part.integer > 0) row(part.integer - 1);
    if (part.field !== 2) continue;
    const [name, tensor] = entryIn(bytesIn(part));
    for (const [at, data] of decodeBatch(tensor).entries()) row(at)[name] = { data };
  }
  return rows;
}

/** BatchedTensor. */
function decodeBatch(message: Uint8Array): number[][] {
  let data: Uint8Array = NOTHING;
  let offsets: number[] = [];
  let dtype = 0;
  for (const part of readFields(message)) {
    if (part.field === 1) data = bytesIn(part);
    if (part.field === 2) offsets = numbersIn(bytesIn(part), DTYPES.int64);
    if (part.field === 3 && "integer" in part) dtype = part.integer;
  }
  return offsets.slice(1).map((to, i) => numbersIn(data.subarray(offsets[i], to), dtype));
}

/** SampleResponse, as JSON has it. @throws RangeError */
export function decodeSample(message: Uint8Array): Json {
  const sequences: Json[] = [];
  for (const part of readFields(message)) {
    if (part.field !== 1) continue;
    const sequence: { tokens: number[]; logprobs: number[] | null } = { tokens: [], logprobs: null };
    for (const inner of readFields(bytesIn(part))) {
      if (inner.field === 2) sequence.tokens = numbersIn(bytesIn(inner), DTYPES.int32);
      if (inner.field === 3) sequence.logprobs = numbersIn(bytesIn(inner), DTYPES.float32);
    }
    sequences.push(sequence);
  }
  return { sequences };
}

const NOTHING = new Uint8Array(0);

function bytesIn(part: Field): Uint8Array {
  if ("bytes" in part) return part.bytes;
  throw new RangeError(`field ${part.field} is a number`);
}

/** Of a map: its key and its value. */
function entryIn(message: Uint8Array): [string, Uint8Array] {
  let key = "";
  let value: Uint8Array = NOTHING;
  for (const part of readFields(message)) {
    if (part.field === 1) key = Buffer.from(bytesIn(part)).toString();
    if (part.field === 2) value = bytesIn(part);
  }
  return [key, value];
}

function numbersIn(raw: Uint8Array, dtype: number): number[] {
  // A copy, which begins where its numbers may begin.
  const { buffer } = new Uint8Array(raw);
  switch (dtype) {
    case DTYPES.float32:
      return Array.from(new Float32Array(buffer));
    case DTYPES.int64:
      return Array.from(new BigInt64Array(buffer), Number);
    case DTYPES.int32:
      return Array.from(new Int32Array(buffer));
    case DTYPES.bfloat16:
      return Array.from(new Float32Array(Uint32Array.from(new Uint16Array(buffer), (bits) => bits << 16).buffer));
    default:
      throw new RangeError(`numbers have the unknown type ${dtype}`);
  }
}
