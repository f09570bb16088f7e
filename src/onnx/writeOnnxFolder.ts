// A base model with an adapter added into its weights, as a folder of ONNX that transformers.js, optimum and anneal load.

import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { elementCount } from "../elementCount.js";
import { ModelFileError } from "../errors.js";
import { inPieces, shouldYield, yieldToEventLoop } from "../eventLoop.js";
import type { Stream } from "../protobuf.js";
import type { ModelSpec } from "../runtime/runtime.js";
import { type Adapter, MAX_TURN_VALUES, MergedTensors } from "../weights/mergedTensors.js";
import type { FloatTensorLocation } from "../weights/weightFolder.js";
import { copyTextFiles, readTextConfig, writeJson } from "../weights/writeWeightFolder.js";
import { BLOCK_VALUES, type CodeBits, encodeBlocks } from "./blockCodes.js";
import { type DecoderWeights, decoderGraph, type OnnxDtype } from "./decoderGraph.js";
import type { ExternalPlace, Graph, Weight } from "./graph.js";

export interface OnnxOptions {
  /** Default: float32. */
  dtype?: OnnxDtype;
  /**
   * Of one file in bytes, a single larger tensor excepted: weights that take more go into files of their own beside the
   * graph. Default 2e9, the largest that every reader takes.
   */
  maxFileBytes?: number;
  signal?: AbortSignal;
}

export const DEFAULT_ONNX_FILE_BYTES = 2e9;

/** What transformers.js calls a variant, and the ending of its file. */
const VARIANTS: Record<OnnxDtype, { name: string; file: string }> = {
  float32: { name: "fp32", file: "model.onnx" },
  float16: { name: "fp16", file: "model_fp16.onnx" },
  int8: { name: "int8", file: "model_int8.onnx" },
  int4: { name: "q4", file: "model_q4.onnx" },
};

/** Smaller tensors stay in the graph's file wherever the others are. */
const MIN_EXTERNAL_BYTES = 1024;

/** Fills the existing folder `target`. @throws ModelFileError for what ONNX folders are not made of, or a damaged base. */
export async function writeOnnxFolder(
  target: string,
  source: string,
  adapter: Adapter,
  { dtype = "float32", maxFileBytes = DEFAULT_ONNX_FILE_BYTES, signal }: OnnxOptions,
): Promise<void> {
  const merged = await MergedTensors.open(source, adapter);
  try {
    refuseUnknown(source, merged.config);
    const graph = await decoderGraph(merged.config, new MergedStreams(merged), dtype);
    const { name, file } = VARIANTS[dtype];
    await mkdir(join(target, "onnx"));
    const { places, files } = externalPlaces(graph, file, maxFileBytes);
    for (const [external, weights] of files) {
      const contents = weights.map(({ content }) => content);
      await writeStreams(join(target, "onnx", external), contents, signal);
    }
    const model = graph.model((weight) => places.get(weight) ?? null);
    await writeStreams(join(target, "onnx", file), model.parts, signal);
    const config = await readTextConfig(source);
    const settings = {
      dtype: name,
      kv_cache_dtype: { fp16: "float16" },
      ...(files.size > 0 ? { use_external_data_format: { [file]: files.size } } : {}),
    };
    await writeJson(join(target, "config.json"), { ...config, "transformers.js_config": settings });
    await copyTextFiles(target, source);
  } finally {
    await merged.close();
  }
}

const KNOWN: Record<string, readonly string[]> = {
  model: [
    ...["hidden", "vocab", "maxPositions", "layers", "rmsEps", "normAddsOne", "tiedHead", "embeddingScale"],
    // What is rounded to bfloat16 is not in the types of ONNX folders.
    ...["logitScale", "logitSoftCap", "embeddingRounds"],
  ],
  layer: ["attention", "feedForward", "norms", "residualScale"],
  attention: [
    ...["heads", "kvHeads", "headDim", "rope", "scale", "window", "softCap", "qkNorm", "qBias", "kBias", "vBias"],
    ...["oBias", "fusedQkv"],
  ],
  rope: [
    ...["type", "theta", "rotaryShare", "factor", "lowFreqFactor", "highFreqFactor", "originalMaxPositions"],
    ...["attentionFactor", "betaFast", "betaSlow", "mscale", "mscaleAllDim", "truncate", "shortFactors", "longFactors"],
    "queryScale",
  ],
  feedForward: ["intermediate", "activation", "bias", "fusedGateUp"],
};

/** A spec that says more than the graph knows is another model than the graph would be. */
function refuseUnknown(folder: string, spec: ModelSpec): void {
  const check = (at: string, kind: string, value: object) => {
    const unknown = Object.entries(value).find(([key, of]) => !KNOWN[kind]!.includes(key) && !isNeutral(of));
    if (unknown === undefined) return;
    throw new ModelFileError(join(folder, "config.json"), `${at}${unknown[0]} of this model is not written as ONNX`, {
      hint: 'export it as "merged" or "peft"',
    });
  };
  check("", "model", spec);
  for (const [i, layer] of spec.layers.entries()) {
    check(`layers[${i}].`, "layer", layer);
    const attention = layer.attention!;
    check(`layers[${i}].attention.`, "attention", attention);
    check(`layers[${i}].attention.rope.`, "rope", attention.rope);
    check(`layers[${i}].feedForward.`, "feedForward", layer.feedForward!);
  }
}

const isNeutral = (value: unknown) => value === undefined || value === null || value === false || value === 0;

/** Which weights lie outside the graph's file: none, or all but small ones, in files of `maxFileBytes`. */
function externalPlaces(graph: Graph, file: string, maxFileBytes: number) {
  const places = new Map<Weight, ExternalPlace>();
  const files = new Map<string, Weight[]>();
  const total = graph.weights.reduce((sum, { content }) => sum + content.bytes, 0);
  if (total <= maxFileBytes) return { places, files };
  let offset = Number.POSITIVE_INFINITY;
  let external = "";
  for (const weight of graph.weights) {
    const { bytes } = weight.content;
    if (bytes < MIN_EXTERNAL_BYTES) continue;
    if (offset + bytes > maxFileBytes) {
      external = `${file}_data${files.size === 0 ? "" : `_${files.size}`}`;
      files.set(external, []);
      offset = 0;
    }
    files.get(external)!.push(weight);
    places.set(weight, { file: external, offset });
    offset += bytes;
  }
  return { places, files };
}

async function writeStreams(
  file: string,
  parts: readonly (Uint8Array | Stream)[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const output = await open(file, "wx");
  try {
    const write = async (block: Uint8Array) => {
      signal?.throwIfAborted();
      await output.appendFile(block);
      while (shouldYield()) await yieldToEventLoop();
    };
    // Thousands of them are a few bytes long.
    let small: Uint8Array[] = [];
    for (const part of parts) {
      if (part instanceof Uint8Array) {
        small.push(part);
        continue;
      }
      await write(Buffer.concat(small));
      small = [];
      for await (const block of part.blocks()) await write(block);
    }
    await write(Buffer.concat(small));
    await output.sync();
  } finally {
    await output.close();
  }
}

/** The tensors of a merged model as the graph asks for them. */
class MergedStreams implements DecoderWeights {
  private readonly tensors: Map<string, FloatTensorLocation>;

  constructor(private readonly merged: MergedTensors) {
    this.tensors = new Map(merged.tensors.map((tensor) => [tensor.name, tensor]));
  }

  shape(name: string): readonly number[] {
    return this.tensor(name).shape;
  }

  floats(name: string, type: "float32" | "float16"): Stream {
    const tensor = this.tensor(name);
    const stored = type === "float32" ? "F32" : "F16";
    const bytes = elementCount(tensor.shape) * (type === "float32" ? 4 : 2);
    return { bytes, blocks: () => this.merged.blocks(tensor, stored) };
  }

  coded(name: string, bits: CodeBits): { codes: Stream; scales: Stream } {
    const tensor = this.tensor(name);
    const count = elementCount(tensor.shape);
    const encoded = async function* (this: MergedStreams) {
      for await (const values of this.merged.values(tensor)) {
        const codes = new Uint8Array((values.length * bits) / 8);
        const scales = new Float32Array(values.length / BLOCK_VALUES);
        await inPieces(values.length, MAX_TURN_VALUES, (at, to) => {
          const piece = encodeBlocks(values.subarray(at, to), bits);
          codes.set(piece.codes, (at * bits) / 8);
          scales.set(piece.scales, at / BLOCK_VALUES);
        });
        yield { codes, scales };
      }
    }.bind(this);
    return {
      codes: {
        bytes: (count * bits) / 8,
        async *blocks() {
          for await (const { codes } of encoded()) yield codes;
        },
      },
      // Computed a second time rather than kept: they may be written much later.
      scales: {
        bytes: (count / BLOCK_VALUES) * 4,
        async *blocks() {
          for await (const { scales } of encoded()) yield new Uint8Array(scales.buffer);
        },
      },
    };
  }

  private tensor(name: string): FloatTensorLocation {
    return this.tensors.get(name)!;
  }
}
