// A graph of ONNX operators as it is built: names of values, nodes, constants, weights. Field numbers are those of onnx.proto.

import { Message, type Stream } from "../protobuf.js";

export const ElementTypes = { float32: 1, uint8: 2, int64: 7, bool: 9, float16: 10 } as const;
export type OnnxType = keyof typeof ElementTypes;

/** Newest operators that every ONNX Runtime of the last years has, in browsers too. */
const OPSET = 18;
const IR_VERSION = 9;
/** Operators of ONNX Runtime: products with weights of few bits. */
export const MICROSOFT = "com.microsoft";

/** An axis is a number, or the name of one that differs from call to call. */
type Axis = number | string;

/** What an attribute may be: 1 and 1n are integers, numbers with a fraction are given as {float}. */
type Attribute = number | string | readonly number[] | { float: number };

/** A tensor whose bytes are read when the model is written. */
export interface Weight {
  name: string;
  type: OnnxType;
  shape: readonly number[];
  content: Stream;
}

/** Where a weight's bytes lie when they are not in the model's file. */
export interface ExternalPlace {
  file: string;
  offset: number;
}

export class Graph {
  readonly weights: Weight[] = [];
  /** As they are written: a large graph has thousands, of many parts each. */
  private readonly nodes: Uint8Array[] = [];
  private readonly inputs: Message[] = [];
  private readonly outputs: Message[] = [];
  private readonly constants = new Map<string, Message>();
  private values = 0;

  /** Of the values that follow, until the next call: where they stand in the model. */
  scope = "";

  input(name: string, type: OnnxType, shape: readonly Axis[]): string {
    this.inputs.push(valueInfo(name, type, shape));
    return name;
  }

  output(value: string, name: string, type: OnnxType, shape: readonly Axis[]): void {
    this.nodes.push(node("Identity", [value], [name], name, {}, "").toBytes());
    this.outputs.push(valueInfo(name, type, shape));
  }

  /** The value that an operator makes of others. */
  op(
    type: string,
    inputs: readonly string[],
    attributes: Record<string, Attribute> = {},
    { domain = "" }: { domain?: string } = {},
  ): string {
    return this.ops(type, 1, inputs, attributes, domain)[0]!;
  }

  /** As `op`, for one that makes several. */
  ops(
    type: string,
    count: number,
    inputs: readonly string[],
    attributes: Record<string, Attribute> = {},
    domain = "",
  ): string[] {
    const name = `${this.scope}/${type}_${this.values++}`;
    const outputs = Array.from({ length: count }, (_, i) => (count === 1 ? name : `${name}_${i}`));
    this.nodes.push(node(type, inputs, outputs, name, attributes, domain).toBytes());
    return outputs;
  }

  /** Whole numbers; without a shape they are one axis. */
  integers(values: readonly number[], shape: readonly number[] = [values.length]): string {
    const data = new BigInt64Array(values.map(BigInt));
    return this.constant(`int64_${shape.join("x")}_${values.join("_")}`, "int64", shape, new Uint8Array(data.buffer));
  }

  /** A single number. */
  float(value: number): string {
    return this.constant(`float_${value}`, "float32", [], new Uint8Array(Float32Array.of(value).buffer));
  }

  constant(name: string, type: OnnxType, shape: readonly number[], raw: Uint8Array): string {
    if (!this.constants.has(name)) this.constants.set(name, tensor(name, type, shape).data(9, raw));
    return name;
  }

  weight(weight: Weight): string {
    this.weights.push(weight);
    return weight.name;
  }

  /** The file's content. `placeOf` says which weights lie elsewhere. */
  model(placeOf: (weight: Weight) => ExternalPlace | null): Message {
    const graph = new Message();
    for (const one of this.nodes) graph.data(1, one);
    graph.text(2, "decoder");
    for (const constant of this.constants.values()) graph.message(5, constant);
    for (const weight of this.weights) {
      const place = placeOf(weight);
      const message = tensor(weight.name, weight.type, weight.shape);
      graph.message(5, place === null ? message.data(9, weight.content) : external(message, place, weight));
    }
    for (const input of this.inputs) graph.message(11, input);
    for (const output of this.outputs) graph.message(12, output);
    return new Message()
      .integer(1, IR_VERSION)
      .text(2, "anneal")
      .message(7, graph)
      .message(8, new Message().text(1, "").integer(2, OPSET))
      .message(8, new Message().text(1, MICROSOFT).integer(2, 1));
  }
}

function node(
  type: string,
  inputs: readonly string[],
  outputs: readonly string[],
  name: string,
  attributes: Record<string, Attribute>,
  domain: string,
): Message {
  const message = new Message();
  for (const input of inputs) message.text(1, input);
  for (const output of outputs) message.text(2, output);
  message.text(3, name).text(4, type);
  for (const [key, value] of Object.entries(attributes)) message.message(5, attribute(key, value));
  return domain === "" ? message : message.text(7, domain);
}

function attribute(name: string, value: Attribute): Message {
  const message = new Message().text(1, name);
  if (typeof value === "number") return message.integer(3, value).integer(20, 2);
  if (typeof value === "string") return message.text(4, value).integer(20, 3);
  if ("float" in value) return message.float(2, value.float).integer(20, 1);
  for (const entry of value) message.integer(8, entry);
  return message.integer(20, 7);
}

function tensor(name: string, type: OnnxType, shape: readonly number[]): Message {
  return new Message().packed(1, shape).integer(2, ElementTypes[type]).text(8, name);
}

function external(message: Message, { file, offset }: ExternalPlace, { content }: Weight): Message {
  const entry = (key: string, value: string) => new Message().text(1, key).text(2, value);
  return message
    .message(13, entry("location", file))
    .message(13, entry("offset", String(offset)))
    .message(13, entry("length", String(content.bytes)))
    .integer(14, 1);
}

function valueInfo(name: string, type: OnnxType, shape: readonly Axis[]): Message {
  const axes = new Message();
  for (const axis of shape) {
    axes.message(1, typeof axis === "number" ? new Message().integer(1, axis) : new Message().text(2, axis));
  }
  const tensorType = new Message().integer(1, ElementTypes[type]).message(2, axes);
  return new Message().text(1, name).message(2, new Message().message(1, tensorType));
}
