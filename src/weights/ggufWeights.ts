// A model in a GGUF file: what the decoder is, and where its tensors lie.

import { ModelFileError } from "../errors.js";
import {
  architectureOf,
  ggufConfig,
  ggufTensorName,
  isFurtherToken,
  isUnusedKey,
  ROPE_FACTORS,
  type RopeFactors,
} from "../gguf/ggufConfig.js";
import { GgufFields } from "../gguf/ggufFields.js";
import { type GgufFile, type GgufTensor, readGguf } from "../gguf/ggufFile.js";
import { openRegularFile, readAt } from "../regularFile.js";
import {
  type ElementType,
  type ModelSpec,
  quantizedFormats,
  type TensorLocation,
  weightTensors,
} from "../runtime/runtime.js";
import { expertTensor, isRouter } from "./expertTensors.js";
import { isFloatType } from "./floats.js";
import { interleavedHeads, tiledHeads } from "./ggufOrder.js";
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
  const quantized = tensors.flatMap((tensor) =>
    isKeptQuantized(tensor) ? [{ tensor: tensor.name, format: tensor.dtype }] : [],
  );
  const floats = tensors.filter(({ name, shape, dtype }) => shape.length > 1 && isFloatType(dtype) && !isSmall(name));
  const dtype = floats.length > 0 && floats.every(({ dtype }) => dtype === "F32") ? "float32" : "bfloat16";
  return { config: quantized.length > 0 ? { ...spec, quantized } : spec, tensors, dtype };
}

/** Whether its codes are computed with: not where they must be taken apart to put columns into the model's order. */
function isKeptQuantized({ dtype, tiledHeads }: TensorLocation): boolean {
  if (isFloatType(dtype)) return false;
  const { numbers } = quantizedFormats().find(({ name }) => name === dtype)!;
  return !tiledHeads?.columns || tiledHeads.width % numbers === 0;
}

/** Matrices that are in float32 beside whatever. */
const isSmall = (name: string) =>
  isRouter(name) || isConvolution(name) || /\.(linear_attn\.in_proj_[ab]|per_layer_\w+)\.weight$/.test(name);

export const isConvolution = (name: string): boolean => /\.(linear_attn\.conv1d|conv\.conv)\.weight$/.test(name);

/** As config.json of the folder that the file was made of. @throws ModelFileError */
export async function readGgufConfig(file: string): Promise<JsonFields> {
  return configOf(await readGguf(file));
}

async function configOf(gguf: GgufFile): Promise<JsonFields> {
  return new JsonFields(gguf.file, ggufConfig(gguf, await ropeFactors(gguf)));
}

function matchTensors(gguf: GgufFile, spec: ModelSpec): TensorLocation[] {
  const fields = new GgufFields(gguf);
  const architecture = architectureOf(fields);
  const { interleaved, deltaRule } = architecture;
  const used = new Set<string>(Object.values(ROPE_FACTORS));
  const tensors = weightTensors(spec).map(({ name, shape }): TensorLocation => {
    const matrix = expertTensor(name);
    const { stored, part, parts } = placeIn(gguf, ggufTensorName(matrix?.stacked ?? name, architecture));
    const tensor = gguf.tensors.get(stored);
    if (!tensor) throw new ModelFileError(gguf.file, `lacks the tensor ${stored}`, { param: stored });
    used.add(stored);
    const fail = (problem: string) => new ModelFileError(tensor.file, `${stored} ${problem}`, { param: stored });
    const count = matrix && spec.layers[matrix.layer]!.experts!.count;
    const [rows, ...columns] = storedShape(name, shape);
    const own = [parts * rows!, ...columns];
    const wanted = count === null ? own : [count, ...own];
    if (tensor.shape.length !== wanted.length || tensor.shape.some((size, i) => size !== wanted[i])) {
      throw fail(`has shape [${tensor.shape}], the metadata asks for [${wanted}]`);
    }
    const { file, offset, type } = tensor;
    if (!isFloatType(type) && (shape.length === 1 || isRouter(name))) {
      throw fail(`is of the type ${type}, which ${shape.length === 1 ? "vectors" : "routers"} cannot have`);
    }
    const bytes = tensor.bytes / (count ?? 1) / parts;
    const heads = interleaved ? interleavedHeads(name, spec) : null;
    const place = { file, offset: offset + bytes * ((matrix?.expert ?? 0) * parts + part), bytes };
    const tiled = deltaRule ? tiledHeads(name, spec) : null;
    return {
      name,
      ...place,
      dtype: type,
      shape,
      ...(heads && { interleavedHeads: heads }),
      ...(tiled && { tiledHeads: tiled }),
      ...(name.endsWith(".A_log") && { negatedExp: true }),
    };
  });
  for (const [name, { file }] of gguf.tensors) {
    if (used.has(name) || isFurtherToken(name, fields, architecture) || isUnusedKey(name, spec.layers)) continue;
    throw new ModelFileError(file, `${name} is no tensor of this decoder`, { param: name });
  }
  return tensors;
}

/** The tensor that holds another one's rows, of every expert: that itself, or the one with the rows of gate and then of up. */
function placeIn({ tensors }: GgufFile, name: string): { stored: string; part: number; parts: number } {
  const both = name.replace(/\.ffn_(gate|up)_exps\./, ".ffn_gate_up_exps.");
  if (both === name || tensors.has(name) || !tensors.has(both)) return { stored: name, part: 0, parts: 1 };
  return { stored: both, part: name.includes(".ffn_up_exps.") ? 1 : 0, parts: 2 };
}

/** Without the middle dimension of a convolution, and the only row of a shared expert's gate. */
export function storedShape(name: string, shape: readonly number[]): readonly number[] {
  if (shape.length === 3) return [shape[0]!, shape[2]!];
  return name.endsWith(".shared_expert_gate.weight") ? shape.slice(1) : shape;
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
