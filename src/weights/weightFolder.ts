// A model that is loaded, from a Hugging Face folder or a GGUF file: what the decoder is, and where its tensors lie.

import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { ModelFileError } from "../errors.js";
import { isGguf } from "../gguf/ggufFile.js";
import { type ElementType, type ModelSpec, type TensorLocation, weightTensors } from "../runtime/runtime.js";
import type { Quantization } from "../types/options.js";
import type { ContentHash } from "./contentHash.js";
import { expertNames, fusedExperts, storedName } from "./expertTensors.js";
import { towerNamed } from "./families.js";
import { type FloatType, isFloatType } from "./floats.js";
import { readGgufWeights } from "./ggufWeights.js";
import { JsonFields } from "./jsonFields.js";
import { modelSpec } from "./modelSpec.js";
import { hasOwnHead } from "./ownHead.js";
import {
  dropZeroBiases,
  type FoundTensor,
  MICROSCALED,
  readPacking,
  takeMicroscaled,
  takePacked,
} from "./packedWeights.js";
import { formatsByMatrix } from "./quantizeFormats.js";
import { readSafetensorsHeader } from "./safetensorsHeader.js";
import { weightsHash } from "./weightsHash.js";

const SINGLE_FILE = "model.safetensors";
const INDEX_FILE = "model.safetensors.index.json";

export interface FloatTensorLocation extends TensorLocation {
  dtype: FloatType;
}

/** What a model is loaded from. */
export interface Weights {
  readonly config: ModelSpec;
  readonly tensors: TensorLocation[];
  /** What the weights are stored in; float16 counts as bfloat16. */
  readonly dtype: ElementType;
  /** Of a model that also sees, this is the text alone. */
  readonly textOnly: boolean;
  /** See weightsHash.ts. */
  readonly content: ContentHash;
}

export interface WeightFolder extends Weights {
  readonly tensors: FloatTensorLocation[];
  /** The same as they lie in the folder: where the experts of a layer are one tensor, that one. */
  readonly stored: FloatTensorLocation[];
}

/**
 * What `openWeightFolder` opens, or a GGUF file; `quantization`: to be quantised when it is loaded. Then it has another hash.
 * @throws ModelFileError; with a quantisation also for weights that are quantised already.
 */
export async function openWeightFiles(path: string, quantization?: Quantization): Promise<Weights> {
  const weights = isGguf(path) ? await openGgufWeights(path) : await openSafetensors(path);
  if (quantization === undefined) return weights;
  if (weights.config.quantized) {
    throw new ModelFileError(path, "holds quantised weights, which are not quantised again", { param: "quantize" });
  }
  const config = { ...weights.config, quantized: formatsByMatrix(weights.config, quantization) };
  return { ...weights, config, content: weightsHash(config, weights.tensors) };
}

/**
 * Reads config.json and the headers of all weight files, and checks that every tensor of the decoder is there in its shape,
 * in floats.
 * @throws ModelFileError naming the file and what is wrong with it.
 */
export async function openWeightFolder(folder: string): Promise<WeightFolder> {
  if (isGguf(folder)) {
    throw new ModelFileError(
      folder,
      "is a GGUF file, which can be served and adapted, but not merged or trained whole",
      {
        hint: "use the Hugging Face folder that it was made of",
      },
    );
  }
  const weights = await openSafetensors(folder);
  if (weights.config.quantized) {
    throw new ModelFileError(
      folder,
      "holds quantised weights, which can be served and adapted, but not merged or trained whole",
      {
        hint: "use the folder with the original weights",
      },
    );
  }
  return weights as WeightFolder;
}

/** As {@link openWeightFolder}, of quantised weights too. */
async function openSafetensors(folder: string): Promise<Weights & Pick<WeightFolder, "stored">> {
  const fields = await JsonFields.read(join(folder, "config.json"));
  const told = modelSpec(fields);
  // Before the weights, which may be in types that no safetensors of floats has.
  const packing = readPacking(fields);
  const isTower = towerNamed(fields.string("model_type")) !== undefined;
  const all = await storedTensors(folder);
  const found = withPrefix(isTower ? textTensors(all) : all);
  // Without a head of its own there is one to be had: whoever only reads hidden states needs none.
  const tiedHead = found.isHeadless || (told.tiedHead && !(await hasOwnHead(found.tensors)));
  const floats = { ...told, tiedHead };
  const { tensors, stored } = await matchTensors(folder, floats, packing, found.tensors);
  const quantized = tensors.flatMap(({ name, dtype }) => (isFloatType(dtype) ? [] : [{ tensor: name, format: dtype }]));
  const config = quantized.length > 0 ? { ...floats, quantized } : floats;
  const dtype = tensors[0]!.dtype === "F32" ? "float32" : "bfloat16";
  return { config, tensors, stored, dtype, textOnly: isTower, content: weightsHash(config, tensors) };
}

async function openGgufWeights(file: string): Promise<Weights> {
  const { config, tensors, dtype } = await readGgufWeights(file);
  return { config, tensors, dtype, textOnly: false, content: weightsHash(config, tensors) };
}

/** Models of embeddings are written without what stands around them: their tensors' names begin later. */
function withPrefix(tensors: Map<string, FoundTensor>): { tensors: Map<string, FoundTensor>; isHeadless: boolean } {
  if (tensors.has("model.embed_tokens.weight") || !tensors.has("embed_tokens.weight")) {
    return { tensors, isHeadless: false };
  }
  const named = [...tensors].map(([name, tensor]): [string, FoundTensor] => [
    name === "lm_head.weight" ? name : `model.${name}`,
    tensor,
  ]);
  return { tensors: new Map(named), isHeadless: !tensors.has("lm_head.weight") };
}

async function storedTensors(folder: string): Promise<Map<string, FoundTensor>> {
  const single = join(folder, SINGLE_FILE);
  const index = join(folder, INDEX_FILE);
  if (existsSync(single)) return new Map(await tensorsOf(single));
  if (existsSync(index)) return shardedTensors(folder, index);
  throw new ModelFileError(folder, `holds neither ${SINGLE_FILE} nor ${INDEX_FILE}`, {
    hint: "convert other formats to safetensors first",
  });
}

async function tensorsOf(file: string): Promise<[string, FoundTensor][]> {
  const { tensors } = await readSafetensorsHeader(file);
  return [...tensors].map(([name, tensor]) => [name, { ...tensor, file }]);
}

async function shardedTensors(folder: string, index: string): Promise<Map<string, FoundTensor>> {
  const fields = await JsonFields.read(index);
  const map: JsonFields = fields.object("weight_map") ?? fields.fail("weight_map", "is missing");
  const shards = new Map<string, Map<string, FoundTensor>>();
  const found = new Map<string, FoundTensor>();
  for (const name of map.names) {
    const shard = map.string(name);
    // An index must not reach out of its folder.
    if (shard !== basename(shard) || shard === "" || shard.startsWith(".") || shard.includes("\\")) {
      map.fail(name, `is in "${shard}", which is not the name of a file in the folder`);
    }
    if (!shards.has(shard)) shards.set(shard, new Map(await tensorsOf(join(folder, shard))));
    const tensor = shards.get(shard)!.get(name);
    if (!tensor) map.fail(name, `is said to be in ${shard}, which does not hold it`);
    found.set(name, tensor);
  }
  return found;
}

/** Of a folder that is more than text: the decoder's, by the names that they have in one that is not. */
function textTensors(found: Map<string, FoundTensor>): Map<string, FoundTensor> {
  const text = new Map<string, FoundTensor>();
  for (const [name, tensor] of found) {
    if (OTHER_TOWERS.test(name)) continue;
    text.set(name.replace(/^model\.language_model\./, "model.").replace(/^language_model\./, ""), tensor);
  }
  return text;
}

const OTHER_TOWERS = /^(model\.)?((vision|audio)_tower|multi_modal_projector|visual|embed_(vision|audio))\./;

/** Whether a tensor makes keys or values of a layer that attends to those of another: published folders have these in all layers. */
function isOfUnusedKeys(name: string, { layers }: ModelSpec): boolean {
  const [, layer] = /^model\.layers\.(\d+)\.self_attn\.(?:[kv]_proj|[kv]_norm)\./.exec(name) ?? [];
  return layer !== undefined && layers[Number(layer)]?.attention?.keysOf !== undefined;
}

/** All that the model has, and those in floats as they are stored. */
async function matchTensors(
  folder: string,
  config: ModelSpec,
  packing: ReturnType<typeof readPacking>,
  found: Map<string, FoundTensor>,
): Promise<{ tensors: TensorLocation[]; stored: FloatTensorLocation[] }> {
  const tensors: TensorLocation[] = [];
  const stored = new Map<string, FloatTensorLocation>();
  const microscaled = new Set<string>();
  const names = expertNames(config, found.keys());
  for (const { name, shape } of weightTensors(config)) {
    const fused = found.has(name) ? null : fusedExperts(name, shape, config);
    const packed =
      packing === MICROSCALED
        ? takeMicroscaled(name, shape, fused, found, microscaled)
        : packing && (await takePacked(name, shape, packing, found));
    if (packed) {
      tensors.push(packed);
      continue;
    }
    const usual = fused ?? { name, shape };
    const whole = { ...usual, name: found.has(usual.name) ? usual.name : storedName(usual.name, names) };
    const tensor = found.get(whole.name);
    if (!tensor) {
      const missing = names ? whole.name : name;
      throw new ModelFileError(folder, `lacks the tensor ${missing}`, { param: missing });
    }
    const location = stored.get(whole.name) ?? floatTensor(tensor, whole);
    stored.set(whole.name, location);
    const bytes = location.bytes / (fused?.parts ?? 1);
    const offset = location.offset + bytes * (fused?.part ?? 0);
    tensors.push({ ...location, name, shape, offset, bytes, ...(fused?.strides && { strides: fused.strides }) });
  }
  for (const name of [...stored.keys(), ...microscaled]) found.delete(name);
  await dropZeroBiases(
    tensors.flatMap(({ name, packed }) => (packed ? [name.replace(/\.weight$/, "")] : [])),
    found,
  );
  for (const [name, { file }] of found) {
    // Tables that the decoder computes itself, and a copy of the embedding that a tied head does not need.
    if (name.endsWith(".rotary_emb.inv_freq") || (config.tiedHead && name === "lm_head.weight")) continue;
    // The head of a further token, which speculates only.
    if (name.startsWith("mtp.")) continue;
    if (isOfUnusedKeys(name, config)) continue;
    throw new ModelFileError(file, `${name} is no tensor of this decoder`, { param: name });
  }
  return { tensors, stored: [...stored.values()] };
}

function floatTensor(tensor: FoundTensor, { name, shape }: { name: string; shape: number[] }): FloatTensorLocation {
  const { file, dtype, offset, bytes } = tensor;
  if (!isFloatType(dtype)) {
    throw new ModelFileError(file, `${name} has dtype ${dtype}; F32, BF16 and F16 can be read`, { param: name });
  }
  if (tensor.shape.length !== shape.length || tensor.shape.some((size, i) => size !== shape[i])) {
    const message = `${name} has shape [${tensor.shape}], config.json asks for [${shape}]`;
    throw new ModelFileError(file, message, { param: name });
  }
  return { name, file, offset, bytes, dtype, shape };
}
