// A model in a GGUF file: what the decoder is, and where its tensors lie.

import { ModelFileError } from "../errors.js";
import {
  architectureOf,
  GgufFields,
  ggufConfig,
  ggufTensorName,
  ROPE_FACTORS,
  type RopeFactors,
} from "../gguf/ggufConfig.js";
import { type GgufFile, type GgufTensor, readGguf } from "../gguf/ggufFile.js";
import { openRegularFile, readAt } from "../regularFile.js";
import { type ElementType, type ModelSpec, type TensorLocation, weightTensors } from "../runtime/runtime.js";
import { expertMatrix, isRouter } from "./expertTensors.js";
import { isFloatType } from "./floats.js";
import { JsonFields } from "./jsonFields.js";
import { modelSpec } from "./modelSpec.js";

const MAX_ROPE_FACTORS = 4096;

export interface GgufWeights {
  config: ModelSpec;
  tensors: TensorLocation[];
  /** What matrices that are not quantised are stored in; float16 counts as bfloat16, and so does a file without any. */
  dtype: ElementType;
}

/**
 * Reads the metadata and the table of tensors, and checks that every tensor of the decoder is there in its shape.
 * @throws ModelFileError naming the file, and the key or tensor at fault.
 */
export async function readGgufWeights(file: string): Promise<GgufWeights> {
  const gguf = await readGguf(file);
  // What norms multiply by is stored.
  const spec = { ...modelSpec(await configOf(gguf)), normAddsOne: false };
  const tensors = matchTensors(gguf, spec);
  const quantized = tensors.flatMap(({ name, dtype }) => (isFloatType(dtype) ? [] : [{ tensor: name, format: dtype }]));
  // Routers are in float32 beside whatever.
  const floats = tensors.filter(({ name, shape, dtype }) => shape.length > 1 && isFloatType(dtype) && !isRouter(name));
  const dtype = floats.length > 0 && floats.every(({ dtype }) => dtype === "F32") ? "float32" : "bfloat16";
  return { config: quantized.length > 0 ? { ...spec, quantized } : spec, tensors, dtype };
}

/** As config.json of the folder that the file was made of. @throws ModelFileError */
export async function readGgufConfig(file: string): Promise<JsonFields> {
  return configOf(await readGguf(file));
}

async function configOf(gguf: GgufFile): Promise<JsonFields> {
  return new JsonFields(gguf.file, ggufConfig(gguf, await ropeFactors(gguf)));
}

function matchTensors(gguf: GgufFile, spec: ModelSpec): TensorLocation[] {
  const architecture = architectureOf(new GgufFields(gguf));
  const { interleaved } = architecture;
  const used = new Set<string>(Object.values(ROPE_FACTORS));
  const tensors = weightTensors(spec).map(({ name, shape }): TensorLocation => {
    const matrix = expertMatrix(name);
    const stored = ggufTensorName(matrix?.stacked ?? name, architecture);
    const tensor = gguf.tensors.get(stored);
    if (!tensor) throw new ModelFileError(gguf.file, `lacks the tensor ${stored}`, { param: stored });
    used.add(stored);
    const fail = (problem: string) => new ModelFileError(tensor.file, `${stored} ${problem}`, { param: stored });
    const count = matrix && spec.layers[matrix.layer]!.experts!.count;
    const wanted = count === null ? shape : [count, ...shape];
    if (tensor.shape.length !== wanted.length || tensor.shape.some((size, i) => size !== wanted[i])) {
      throw fail(`has shape [${tensor.shape}], the metadata asks for [${wanted}]`);
    }
    const { file, offset, type } = tensor;
    if (!isFloatType(type) && (shape.length === 1 || isRouter(name))) {
      throw fail(`is of the type ${type}, which ${shape.length === 1 ? "vectors" : "routers"} cannot have`);
    }
    const bytes = tensor.bytes / (count ?? 1);
    const heads = interleaved ? interleavedHeads(name, spec) : null;
    const place = { file, offset: offset + bytes * (matrix?.expert ?? 0), bytes };
    return { name, ...place, dtype: type, shape, ...(heads && { interleavedHeads: heads }) };
  });
  for (const [name, { file }] of gguf.tensors) {
    if (used.has(name)) continue;
    throw new ModelFileError(file, `${name} is no tensor of this decoder`, { param: name });
  }
  return tensors;
}

/** Heads of a projection whose rows rotary embedding pairs; null: it is none. */
export function interleavedHeads(name: string, { layers }: ModelSpec): number | null {
  const [, layer, projection] = /^model\.layers\.(\d+)\.self_attn\.([qk])_proj\./.exec(name) ?? [];
  if (layer === undefined) return null;
  const { heads, kvHeads } = layers[Number(layer)]!.attention!;
  return projection === "q" ? heads : kvHeads;
}

async function ropeFactors(gguf: GgufFile): Promise<RopeFactors> {
  const factors: RopeFactors = {};
  for (const [kind, name] of Object.entries(ROPE_FACTORS)) {
    const tensor = gguf.tensors.get(name);
    if (tensor) factors[kind as keyof RopeFactors] = await factorsOf(tensor, name);
  }
  return factors;
}

async function factorsOf({ file, type, shape, offset, bytes }: GgufTensor, name: string): Promise<Float32Array> {
  if (type !== "F32" || shape.length !== 1 || shape[0]! > MAX_ROPE_FACTORS) {
    throw new ModelFileError(file, `${name} must be a list of at most ${MAX_ROPE_FACTORS} F32`, { param: name });
  }
  const handle = await openRegularFile(file);
  try {
    const raw = Buffer.alloc(bytes);
    if (!(await readAt(handle, raw, offset))) throw new ModelFileError(file, `ends inside ${name}`, { param: name });
    return Float32Array.from({ length: shape[0]! }, (_, i) => raw.readFloatLE(4 * i));
  } finally {
    await handle.close();
  }
}
