// A decoder as a graph in the layout of optimum and transformers.js: input_ids, attention_mask, position_ids and past_key_values.*
// in, logits and present.* out. Rows of a batch may be padded on the left.
//
// Shapes: B sequences, S new tokens, P past ones, T = P + S; R = B * S rows; H heads of D, in K groups of G to a key-value head.

import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import type { Stream } from "../protobuf.js";
import type { AttentionSpec, FeedForwardSpec, ModelSpec } from "../runtime/runtime.js";
import { BLOCK_VALUES, type CodeBits } from "./blockCodes.js";
import { ElementTypes, Graph, MICROSOFT, type OnnxType } from "./graph.js";
import { ropeFrequencies } from "./ropeFrequencies.js";

/** Of a model's matrices; "int8" and "int4" are codes with a scale for every 32 values. */
export type OnnxDtype = "float32" | "float16" | "int8" | "int4";

/** Where a model's values come from, by Hugging Face's names of tensors. */
export interface DecoderWeights {
  shape(name: string): readonly number[];
  floats(name: string, type: "float32" | "float16"): Stream;
  coded(name: string, bits: CodeBits): { codes: Stream; scales: Stream };
}

type Float = "float32" | "float16";

/** Products with codes take activations in 8 bits as well: other kernels unpack whole matrices for every token. */
const INT8_PRODUCTS = 4;

/** What no score reaches, and what is still a number: a row that sees nothing must not become NaN. */
const HIDDEN_SCORE: Record<Float, number> = { float32: -3.4e38, float16: -65504 };

export function decoderGraph(spec: ModelSpec, weights: DecoderWeights, dtype: OnnxDtype): Promise<Graph> {
  return new Decoder(spec, weights, dtype).build();
}

class Decoder {
  private readonly graph = new Graph();
  /** Of products, keys and values. */
  private readonly type: Float;
  private readonly bits: CodeBits | null;
  private readonly known = new Map<string, string>();
  /** Outputs behind the logits. */
  private readonly presents: (() => void)[] = [];
  private inputShape = "";
  private past = "";
  private total = "";

  constructor(
    private readonly spec: ModelSpec,
    private readonly weights: DecoderWeights,
    dtype: OnnxDtype,
  ) {
    this.type = dtype === "float16" ? "float16" : "float32";
    this.bits = dtype === "int8" ? 8 : dtype === "int4" ? 4 : null;
  }

  async build(): Promise<Graph> {
    const { graph: g, spec } = this;
    const ids = g.input("input_ids", "int64", ["batch_size", "sequence_length"]);
    const attended = g.input("attention_mask", "int64", ["batch_size", "total_sequence_length"]);
    const positions = g.input("position_ids", "int64", ["batch_size", "sequence_length"]);
    const caches = spec.layers.map(({ attention }, i) => {
      const { kvHeads, headDim } = attention!;
      return (["key", "value"] as const).map((part) =>
        g.input(`past_key_values.${i}.${part}`, this.type, ["batch_size", kvHeads, "past_sequence_length", headDim]),
      );
    });
    g.scope = "positions";
    this.inputShape = g.op("Shape", [ids]);
    this.past = g.op("Gather", [g.op("Shape", [caches[0]![0]!]), g.integers([2])]);
    this.total = g.op("Add", [this.past, g.op("Gather", [this.inputShape, g.integers([1])])]);
    const position = g.op("Unsqueeze", [g.op("Cast", [positions], { to: 1 }), g.integers([1, 3])]);
    const mask = this.maskOf(attended);

    g.scope = "embedding";
    let x = this.embedding(g.op("Reshape", [ids, g.integers([-1])]));
    x = this.scaled(x, spec.embeddingScale, "float32");
    for (const [i, layer] of spec.layers.entries()) {
      while (shouldYield()) await yieldToEventLoop();
      const { norms, residualScale } = layer;
      const at = `model.layers.${i}`;
      const after = norms === "before_and_after";
      g.scope = `${at}.self_attn`;
      const attended = this.attention(
        layer.attention!,
        i,
        this.norm(x, `${at}.input_layernorm`),
        position,
        mask,
        caches[i]!,
      );
      x = this.added(x, attended, after ? `${at}.post_attention_layernorm` : null, residualScale);
      g.scope = `${at}.mlp`;
      const normed = this.norm(x, `${at}.${after ? "pre_feedforward_layernorm" : "post_attention_layernorm"}`);
      const fed = this.feedForward(layer.feedForward!, `${at}.mlp`, normed);
      x = this.added(x, fed, after ? `${at}.post_feedforward_layernorm` : null, residualScale);
    }
    g.scope = "head";
    const head = spec.tiedHead ? "model.embed_tokens" : "lm_head";
    let logits = this.linear(this.norm(x, "model.norm"), head, false);
    logits = this.scaled(this.cast(logits, "float32"), spec.logitScale, "float32");
    logits = this.capped(logits, spec.logitSoftCap, "float32");
    logits = g.op("Reshape", [logits, g.op("Concat", [this.inputShape, g.integers([spec.vocab])], { axis: 0 })]);
    g.output(logits, "logits", "float32", ["batch_size", "sequence_length", spec.vocab]);
    for (const add of this.presents) add();
    return g;
  }

  // ---- attention

  /** Returns [R, hidden]. */
  private attention(
    a: AttentionSpec,
    layer: number,
    x: string,
    position: string,
    mask: (window: number) => string,
    [pastKeys, pastValues]: readonly string[],
  ): string {
    const g = this.graph;
    const at = `model.layers.${layer}.self_attn`;
    const { heads, kvHeads, headDim, softCap } = a;
    const [rowsQ, rowsK, rowsV] = this.projected(a, at, x);
    const q = this.byPosition(a, this.turned(a, this.heads(a, rowsQ, heads, `${at}.q_norm`), position), position);
    const k = this.turned(a, this.heads(a, rowsK, kvHeads, `${at}.k_norm`), position);
    const v = this.heads(a, rowsV, kvHeads, null);
    const keys = this.grown(layer, "key", pastKeys!, k, a);
    const values = this.grown(layer, "value", pastValues!, v, a);

    const scaled = this.scaled(q, a.scale > 0 ? a.scale : 1 / Math.sqrt(headDim));
    const grouped = g.op("Reshape", [scaled, g.integers([0, kvHeads, -1, headDim])]); // [B, K, G * S, D]
    let scores = g.op("MatMul", [grouped, g.op("Transpose", [keys], { perm: [0, 1, 3, 2] })]);
    const group = [0, kvHeads, heads / kvHeads, -1];
    scores = g.op("Reshape", [scores, this.withTotal(group)]); // [B, K, G, S, T]
    scores = this.capped(scores, softCap);
    scores = g.op("Where", [mask(a.window), scores, this.number(HIDDEN_SCORE[this.type])]);
    const shares = g.op("Softmax", [scores], { axis: -1 });
    const mixed = g.op("MatMul", [g.op("Reshape", [shares, this.withTotal([0, kvHeads, -1])]), values]);
    const perHead = g.op("Reshape", [mixed, g.integers([0, heads, -1, headDim])]);
    const rows = g.op("Reshape", [
      g.op("Transpose", [perHead], { perm: [0, 2, 1, 3] }),
      g.integers([-1, heads * headDim]),
    ]);
    return this.linear(rows, `${at}.o_proj`, a.oBias);
  }

  /** q, k and v of rows. */
  private projected(a: AttentionSpec, at: string, x: string): [string, string, string] {
    if (a.fusedQkv) {
      const widths = [a.heads, a.kvHeads, a.kvHeads].map((heads) => heads * a.headDim);
      return this.split(this.linear(x, `${at}.qkv_proj`, a.qBias), widths) as [string, string, string];
    }
    const q = this.linear(x, `${at}.q_proj`, a.qBias);
    const k = this.linear(x, `${at}.k_proj`, a.kBias);
    return [q, k, this.linear(x, `${at}.v_proj`, a.vBias)];
  }

  /** A projection as [B, heads, S, D], normalised head by head where the layer has such norms. */
  private heads(a: AttentionSpec, x: string, heads: number, norm: string | null): string {
    const g = this.graph;
    const shape = this.once(`heads_${heads}_${a.headDim}`, () =>
      g.op("Concat", [this.inputShape, g.integers([heads, a.headDim])], { axis: 0 }),
    );
    let rows = g.op("Reshape", [x, shape]);
    if (norm !== null && a.qkNorm) rows = this.norm(rows, norm);
    return g.op("Transpose", [rows], { perm: [0, 2, 1, 3] });
  }

  /** [B, heads, S, D] with rotary embedding: element i turns with element i + half. */
  private turned({ rope, headDim }: AttentionSpec, x: string, position: string): string {
    if (rope.type === "none") return x;
    const g = this.graph;
    const width = Math.trunc(headDim * rope.rotaryShare);
    const half = width / 2;
    const [cos, sin] = this.angles(rope, width, position);
    const parts = [half, half, headDim - width].filter((size) => size > 0);
    const [first, second, rest] = this.split(x, parts);
    const turnedFirst = g.op("Sub", [g.op("Mul", [first!, cos]), g.op("Mul", [second!, sin])]);
    const turnedSecond = g.op("Add", [g.op("Mul", [second!, cos]), g.op("Mul", [first!, sin])]);
    return g.op("Concat", [turnedFirst, turnedSecond, ...(rest === undefined ? [] : [rest])], { axis: -1 });
  }

  /** Queries times 1 + queryScale ln(1 + floor(position / originalMaxPositions)). */
  private byPosition(
    { rope: { queryScale, originalMaxPositions } }: AttentionSpec,
    q: string,
    position: string,
  ): string {
    if (queryScale === 0) return q;
    const g = this.graph;
    const factor = this.once(`query_${queryScale}_${originalMaxPositions}`, () => {
      const spans = g.op("Floor", [g.op("Div", [position, g.float(originalMaxPositions)])]);
      const grown = this.scaled(g.op("Log", [g.op("Add", [spans, g.float(1)])]), queryScale, "float32");
      return this.cast(g.op("Add", [grown, g.float(1)]), this.type);
    });
    return g.op("Mul", [q, factor]);
  }

  /** Cosines and sines, [B, 1, S, width / 2]. */
  private angles(rope: AttentionSpec["rope"], width: number, position: string): [string, string] {
    const g = this.graph;
    const key = JSON.stringify({ rope, width });
    const of = (op: "Cos" | "Sin") =>
      this.once(`${op}_${key}`, () => {
        const { frequencies, attentionFactor } = ropeFrequencies(rope, width, this.spec.maxPositions);
        const name = this.once(`frequencies_${key}`, () => {
          const raw = new Uint8Array(frequencies.buffer);
          return g.constant(`inv_freq_${this.known.size}`, "float32", [1, 1, 1, width / 2], raw);
        });
        const angle = this.once(`angle_${key}`, () => g.op("Mul", [position, name]));
        return this.cast(this.scaled(g.op(op, [angle]), attentionFactor, "float32"), this.type);
      });
    return [of("Cos"), of("Sin")];
  }

  /** The past with what is new behind it, [B, K, T, D]: what the next call is given. */
  private grown(layer: number, part: "key" | "value", past: string, added: string, a: AttentionSpec): string {
    const all = this.graph.op("Concat", [past, added], { axis: 2 });
    const shape = ["batch_size", a.kvHeads, "total_sequence_length", a.headDim];
    this.presents.push(() => this.graph.output(all, `present.${layer}.${part}`, this.type, shape));
    return all;
  }

  /** Which keys a query sees, [B, 1, 1, S, T], by how many positions a layer looks back (0: to the first). */
  private maskOf(attended: string): (window: number) => string {
    const g = this.graph;
    const present = g.op("Unsqueeze", [g.op("Cast", [attended], { to: 9 }), g.integers([1, 2, 3])]);
    const scalar = (value: string) => g.op("Squeeze", [value, g.integers([0])]);
    const one = g.integers([1], []);
    const keys = g.op("Range", [g.integers([0], []), scalar(this.total), one]);
    const queries = g.op("Unsqueeze", [g.op("Range", [scalar(this.past), scalar(this.total), one]), g.integers([1])]);
    const causal = g.op("And", [g.op("LessOrEqual", [keys, queries]), present]);
    return (window) => {
      if (window === 0) return causal;
      return this.once(`window_${window}`, () => {
        const last = g.op("Sub", [queries, g.integers([window])]);
        return g.op("And", [g.op("Greater", [keys, last]), causal]);
      });
    };
  }

  // ---- rows: [R, hidden], float32 between layers whatever the products are

  private feedForward({ activation, bias, ...f }: FeedForwardSpec, at: string, x: string): string {
    const g = this.graph;
    const [gate, up] = f.fusedGateUp
      ? this.split(this.linear(x, `${at}.gate_up_proj`, bias), [f.intermediate, f.intermediate])
      : [this.linear(x, `${at}.gate_proj`, bias), this.linear(x, `${at}.up_proj`, bias)];
    const active = activation === "silu" ? g.op("Mul", [gate!, g.op("Sigmoid", [gate!])]) : this.geluTanh(gate!);
    return this.linear(g.op("Mul", [active, up!]), `${at}.down_proj`, bias);
  }

  /** Along the last axis. */
  private split(x: string, widths: readonly number[]): string[] {
    return this.graph.ops("Split", widths.length, [x, this.graph.integers(widths)], { axis: -1 });
  }

  /** x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
  private geluTanh(x: string): string {
    const g = this.graph;
    const cube = g.op("Mul", [g.op("Mul", [x, x]), x]);
    const inner = this.scaled(g.op("Add", [x, this.scaled(cube, 0.044715)]), Math.sqrt(2 / Math.PI));
    return g.op("Mul", [this.scaled(x, 0.5), g.op("Add", [g.op("Tanh", [inner]), this.number(1)])]);
  }

  private added(x: string, part: string, norm: string | null, scale: number): string {
    const normed = norm === null ? part : this.norm(part, norm);
    const g = this.graph;
    return g.op("Add", [x, this.scaled(this.cast(normed, "float32"), scale, "float32")]);
  }

  /** x / sqrt(mean(x^2) + eps) * weight over the last axis, computed in float32. */
  private norm(x: string, name: string): string {
    const g = this.graph;
    const { rmsEps, normAddsOne } = this.spec;
    const wide = this.cast(x, "float32");
    const mean = g.op("ReduceMean", [g.op("Mul", [wide, wide]), g.integers([-1])], { keepdims: 1 });
    const root = g.op("Sqrt", [g.op("Add", [mean, g.float(rmsEps)])]);
    let weight = this.weight(`${name}.weight`, "float32");
    if (normAddsOne) weight = g.op("Add", [weight, g.float(1)]);
    return this.cast(g.op("Mul", [g.op("Div", [wide, root]), weight]), this.type);
  }

  private embedding(ids: string): string {
    const g = this.graph;
    const name = "model.embed_tokens.weight";
    const bits = this.codeBits(name);
    if (bits === null) return this.cast(g.op("Gather", [this.weight(name, this.type), ids]), "float32");
    // In operators that every runtime has: that of ONNX Runtime for this is not in its WebAssembly.
    const { codes, scales } = this.coded(name, bits);
    const [, columns] = this.weights.shape(name) as [number, number];
    const rowScales = g.op("Reshape", [scales, g.integers([-1, columns / BLOCK_VALUES])]);
    const raw = g.op("Cast", [g.op("Gather", [codes, ids])], { to: ElementTypes.float32 }); // [R, blocks, bytes]
    const values = g.op("Sub", [bits === 8 ? raw : this.halves(raw), g.float(2 ** (bits - 1))]);
    const factors = g.op("Unsqueeze", [g.op("Gather", [rowScales, ids]), g.integers([2])]);
    return g.op("Reshape", [g.op("Mul", [values, factors]), g.integers([-1, columns])]);
  }

  /** The two numbers of four bits in each of [R, blocks, bytes], lower half first. */
  private halves(bytes: string): string {
    const g = this.graph;
    const upper = g.op("Floor", [g.op("Mul", [bytes, g.float(1 / 16)])]);
    const lower = g.op("Sub", [bytes, g.op("Mul", [upper, g.float(16)])]);
    const pair = [lower, upper].map((half) => g.op("Unsqueeze", [half, g.integers([3])]));
    return g.op("Reshape", [g.op("Concat", pair, { axis: 3 }), g.integers([0, 0, BLOCK_VALUES])]);
  }

  /** Weights are [outputs, inputs], as Hugging Face stores them. */
  private linear(x: string, name: string, hasBias: boolean): string {
    const g = this.graph;
    const bias = hasBias ? [this.weight(`${name}.bias`, this.type)] : [];
    const matrix = `${name}.weight`;
    const bits = this.codeBits(matrix);
    if (bits === null) return g.op("Gemm", [x, this.weight(matrix, this.type), ...bias], { transB: 1 });
    const { codes, scales } = this.coded(matrix, bits);
    const [N, K] = this.weights.shape(matrix) as [number, number];
    const attributes = { N, K, bits, block_size: BLOCK_VALUES, accuracy_level: INT8_PRODUCTS };
    const product = g.op("MatMulNBits", [x, codes, scales], attributes, { domain: MICROSOFT });
    return hasBias ? g.op("Add", [product, bias[0]!]) : product;
  }

  // ---- weights and numbers

  /** Rows that are no whole number of blocks stay as they are. */
  private codeBits(matrix: string): CodeBits | null {
    return this.weights.shape(matrix)[1]! % BLOCK_VALUES === 0 ? this.bits : null;
  }

  private weight(name: string, type: Float): string {
    return this.once(name, () =>
      this.graph.weight({ name, type, shape: this.weights.shape(name), content: this.weights.floats(name, type) }),
    );
  }

  private coded(name: string, bits: CodeBits): { codes: string; scales: string } {
    const [rows, columns] = this.weights.shape(name) as [number, number];
    const blocks = columns / BLOCK_VALUES;
    const part = (suffix: string, type: OnnxType, shape: number[], content: () => Stream) =>
      this.once(`${name}.${suffix}`, () =>
        this.graph.weight({ name: `${name}.${suffix}`, type, shape, content: content() }),
      );
    const source = this.weights.coded(name, bits);
    const codes = part("codes", "uint8", [rows, blocks, (BLOCK_VALUES * bits) / 8], () => source.codes);
    return { codes, scales: part("scales", "float32", [rows * blocks], () => source.scales) };
  }

  private scaled(x: string, by: number, type: Float = this.type): string {
    return by === 1 ? x : this.graph.op("Mul", [x, this.number(by, type)]);
  }

  private capped(x: string, cap: number, type: Float = this.type): string {
    return cap === 0 ? x : this.scaled(this.graph.op("Tanh", [this.scaled(x, 1 / cap, type)]), cap, type);
  }

  private number(value: number, type: Float = this.type): string {
    return this.once(`${type}_${value}`, () => this.cast(this.graph.float(value), type));
  }

  /** From the other of the two types, if it is another. */
  private cast(x: string, to: Float): string {
    if (this.type === "float32") return x;
    return this.graph.op("Cast", [x], { to: to === "float16" ? 10 : 1 });
  }

  /** [..., T] with the axes before it given. */
  private withTotal(axes: readonly number[]): string {
    return this.once(`total_${axes}`, () =>
      this.graph.op("Concat", [this.graph.integers(axes), this.total], { axis: 0 }),
    );
  }

  /** What several layers use is made once. */
  private once(key: string, make: () => string): string {
    const found = this.known.get(key);
    if (found !== undefined) return found;
    const made = make();
    this.known.set(key, made);
    return made;
  }
}
