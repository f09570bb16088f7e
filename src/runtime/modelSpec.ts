/** What native code has to know of a model: its layers, and where its weights lie. */
import type { KvCache } from "../types/options.js";

export type ElementType = "float32" | "bfloat16";

/**
 * Weights in blocks with scales, by the name of one of `quantizedFormats()`: "Q4_K" as GGUF's type of that name has them, "INT4_128"
 * with a scale and a zero point for every 128 along a row.
 */
export type QuantizedFormatName = string;

/** Integers of 16 bits with a power of two for every 64: as much memory and as exact as bfloat16. */
export const WIDE_FORMAT: QuantizedFormatName = "INT16_64";

/** A quantised format that weights can have; the core says which there are. */
export interface QuantizedFormat {
  name: QuantizedFormatName;
  /** Of a block: a row is whole blocks. */
  numbers: number;
  bytes: number;
  /** Of a code. */
  bits: number;
  /** Made of tensors of codes, scales and zero points, see `Packing`; else files hold its blocks. */
  isPacked: boolean;
}

/** Whose layout codes, scales and zero points have: see native/weights/packed_matrix.h. */
export type Packing = "compressed_tensors" | "gptq" | "gptq_v2" | "awq";

/** Rotary position embedding of a layer, half rotation. */
export interface RopeSpec {
  /** "none": the layer does not see positions. */
  type: "none" | "default" | "linear" | "llama3" | "yarn" | "longrope" | "proportional";
  theta: number;
  /** Of a head's elements, from the first; above 0 and at most 1. */
  rotaryShare: number;
  /** linear, llama3, yarn */
  factor: number;
  /** llama3 */
  lowFreqFactor: number;
  highFreqFactor: number;
  /** llama3, yarn, longrope */
  originalMaxPositions: number;
  /** yarn (0: 0.1 ln(factor) + 1), longrope */
  attentionFactor: number;
  betaFast: number;
  betaSlow: number;
  /** yarn; 0: absent */
  mscale: number;
  mscaleAllDim: number;
  truncate: boolean;
  /** Turned queries are multiplied with 1 + queryScale ln(1 + floor(position / originalMaxPositions)); 0: with 1. */
  queryScale: number;
  /**
   * longrope: what the wavelength of each pair of elements is multiplied with; the long ones in a model that is loaded for
   * more than `originalMaxPositions`.
   */
  shortFactors: number[];
  longFactors: number[];
}

export interface AttentionSpec {
  heads: number;
  kvHeads: number;
  headDim: number;
  rope: RopeSpec;
  /** Multiplies q.k; 0: 1 / sqrt(headDim). */
  scale: number;
  /** Positions that a token sees, itself included; 0: all before it. */
  window: number;
  /** Scores become cap * tanh(score / cap); 0: as they are. */
  softCap: number;
  /** An RMS norm of every head of q and k, before rope. */
  qkNorm: boolean;
  qBias: boolean;
  kBias: boolean;
  vBias: boolean;
  oBias: boolean;
  /** q, k and v are stored, and adapted, as one: qkv_proj. */
  fusedQkv: boolean;
  /** Every head of q_proj is followed by a gate, of which the logistic multiplies what the head puts out. */
  outputGate: boolean;
  /** Every head has a score of its own that takes part in its softmax, and has no value. Absent: none has. */
  sinks?: boolean;
  /** An RMS norm of every head of v, which has no weight. */
  vNorm?: boolean;
  /** There is no v_proj: values are what k_proj puts out. */
  valuesFromKeys?: boolean;
  /** The layer before whose keys and values are attended to, in the place of own ones. */
  keysOf?: number;
}

/** Gated delta rule (linear attention) after a short convolution; key heads are shared by valueHeads / keyHeads value heads. */
export interface DeltaRuleSpec {
  keyHeads: number;
  valueHeads: number;
  keyDim: number;
  valueDim: number;
  /** Tokens of the convolution. */
  kernel: number;
}

/**
 * Gated short convolution: of b, c and x, which its first projection puts out one after the other, its second is given c times a causal
 * convolution of b times x over the tokens, channel by channel.
 */
export interface ShortConvolutionSpec {
  /** Of each of the three. */
  width: number;
  /** Tokens. */
  kernel: number;
  /** Of the convolution and of both projections. */
  bias: boolean;
}

/** "clamped_swiglu": of gate up to 7 and up from -7 to 7, gate * logistic(1.702 gate) * (up + 1). */
export type Activation = "silu" | "gelu_tanh" | "clamped_swiglu";

/** down(activation(gate(x)) * up(x)), or down(activation(gate(x), up(x))) */
export interface FeedForwardSpec {
  intermediate: number;
  activation: Activation;
  bias: boolean;
  /** gate and up are stored, and adapted, as one: gate_up_proj. */
  fusedGateUp: boolean;
}

/**
 * The sum over the `perToken` experts that the router finds likeliest for a token, each a feed-forward as above, times
 * their shares in the softmax over all, or the logistics of their own scores; and of one more, that every token has, times the
 * logistic of its own gate.
 */
export interface ExpertsSpec {
  /** Of the layer. */
  count: number;
  perToken: number;
  /** Of each. */
  intermediate: number;
  activation: Activation;
  /** The shares of those that are chosen are divided by their sum. */
  normalized: boolean;
  /** Of the one that every token has; absent: there is none. */
  sharedIntermediate?: number;
  /** The router has biases, and so has each expert. Absent: none has. */
  bias?: boolean;
  /** Absent: "softmax". */
  scores?: "softmax" | "logistic";
  /** Experts are chosen by the logistic of their score and a bias of their own, which their share leaves out. */
  scoreBias?: boolean;
  /** What shares by logistics are multiplied with. Absent: 1. */
  scale?: number;
}

/** x += attention(norm(x)), then x += feedForward(norm(x)). */
export interface LayerSpec {
  /**
   * null: the layer has `deltaRule` or `shortConvolution` in its place, with a recurrent state for each sequence instead of keys and
   * values.
   */
  attention: AttentionSpec | null;
  deltaRule?: DeltaRuleSpec;
  shortConvolution?: ShortConvolutionSpec;
  /** null: the layer has `experts` in its place. */
  feedForward: FeedForwardSpec | null;
  experts?: ExpertsSpec;
  /** Whether what attention and feed-forward put out is normalised as well. */
  norms: "before" | "before_and_after";
  /** Of what attention and feed-forward add. */
  residualScale: number;
  /** What the layer puts out is multiplied with a number of its own. */
  scaled?: boolean;
  /** What its tensors, and what adapters target, are called: as in most families, or in LFM2. Absent: "usual". */
  names?: "usual" | "lfm2";
}

/**
 * What a model is, whatever computes it: its families differ only in this. Made of config.json by the weights room; what a
 * device does not have of it is refused by name when it is loaded.
 */
export interface ModelSpec {
  hidden: number;
  vocab: number;
  maxPositions: number;
  layers: LayerSpec[];
  rmsEps: number;
  /** Norms multiply by 1 + weight. */
  normAddsOne: boolean;
  /** The head's weight is the embedding's. */
  tiedHead: boolean;
  embeddingScale: number;
  /** That scale, and embeddings times it, are rounded to the compute type. */
  embeddingRounds: boolean;
  logitScale: number;
  /** 0: none. */
  logitSoftCap: number;
  /** Width of what every layer is given of a token beside the residual stream, gates and adds. Absent: nothing. */
  tokenInputs?: number;
  /** Matrices, by Hugging Face's name, that are kept and multiplied quantised; the others are of the compute type. */
  quantized?: { tensor: string; format: QuantizedFormatName }[];
  /** How keys and values are kept: "int8" as codes of 8 bits with a scale for every position and head. Absent: "exact". */
  kvCache?: KvCache;
}

/** Where a tensor lies: native code reads it with positioned reads, never a map. `name` is Hugging Face's. */
export interface TensorLocation {
  name: string;
  file: string;
  /** Bytes from the start of the file. */
  offset: number;
  bytes: number;
  /** F32, BF16, F16 or a quantised format. */
  dtype: QuantizedFormatName;
  shape: number[];
  /** Rows of q or k as GGUF stores them for this many heads: rotary pairs side by side, and not half a head apart. */
  interleavedHeads?: number;
  /** Value heads of a delta rule as GGUF stores them. */
  tiledHeads?: TiledHeads;
  /** Of a vector: -exp(x) is stored for every x. */
  negatedExp?: boolean;
  /** Of floats that do not lie row by row. */
  strides?: Strides;
  /** Of MXFP4 with codes, which lie at `offset`, two neighbours to a byte, and scales apart. */
  apart?: ScalesApart;
  /** Of a packed format, whose codes lie at `offset`. */
  packed?: PackedTensor;
}

/** Number (row, column) is the one at first + row * `row` + column * `column` of those at `offset`; a vector is one row. */
export interface Strides {
  first: number;
  row: number;
  column: number;
}

/** Heads in groups of as many, stored so that the first of every group stands before the second of any. */
export interface TiledHeads {
  heads: number;
  groups: number;
  /** Rows, columns or elements of a head. */
  width: number;
  /** Rows before all heads, in their usual order. */
  first: number;
  /** Heads are columns of the matrix, and not rows. */
  columns: boolean;
}

/** Row i of the matrix is row first + i * step of the codes and of the scales. */
export interface ScalesApart {
  scales: TensorPart;
  first: number;
  step: number;
}

export interface PackedTensor {
  packing: Packing;
  /** Numbers of a row that share a scale. */
  group: number;
  scales: TensorPart;
  /** Absent: all are half of the codes' range. */
  zeros?: TensorPart;
}

/** A tensor that is part of another; `dtype` as safetensors names it. */
export interface TensorPart {
  file: string;
  offset: number;
  bytes: number;
  dtype: string;
}
