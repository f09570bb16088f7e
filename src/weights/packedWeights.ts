// Quantised matrices in Hugging Face folders: what config.json says of them, and the tensors that each is made of.

import { ModelFileError } from "../errors.js";
import { openRegularFile, readAt } from "../regularFile.js";
import {
  type PackedTensor,
  type Packing,
  quantizedFormats,
  type ScalesApart,
  type TensorLocation,
} from "../runtime/runtime.js";
import { type FusedExperts, isRouter } from "./expertTensors.js";
import { isFloatType } from "./floats.js";
import type { JsonFields } from "./jsonFields.js";
import type { StoredTensor } from "./safetensorsHeader.js";

export interface FoundTensor extends StoredTensor {
  file: string;
}

type Found = Map<string, FoundTensor>;

const CONFIG = "quantization_config";
const INSTEAD = "use the folder with the original weights, which `quantize` makes small while it loads";

/** Experts of a layer as codes and scales in two tensors. */
export const MICROSCALED = "mxfp4";
const MICROSCALED_GROUP = 32;

/** The order of its codes is one of four bits. */
const AWQ_BITS = 4;

const packedFormats = () => quantizedFormats().filter(({ isPacked }) => isPacked);
const packedBits = () => [...new Set(packedFormats().map(({ bits }) => bits))];

/** How the folder's quantised matrices are packed; null: it says of none. @throws ModelFileError for what is not computed */
export function readPacking(folder: JsonFields): Packing | typeof MICROSCALED | null {
  const config = folder.object(CONFIG) ?? folder.object("text_config")?.object(CONFIG);
  if (!config) return null;
  const method = config.string("quant_method").replace("_", "-");
  if (method === "gptq") return gptq(config);
  if (method === "awq") return awq(config);
  if (method === "compressed-tensors") return compressedTensors(config);
  if (method === "mxfp4") return MICROSCALED;
  return config.fail("quant_method", `is "${method}"; gptq, awq, compressed-tensors and mxfp4 are read: ${INSTEAD}`);
}

function gptq(config: JsonFields): Packing {
  if (config.boolean("is_marlin_format", false))
    config.fail("is_marlin_format", `is true, which is not read: ${INSTEAD}`);
  requireBits(config, "bits", packedBits());
  requireWord(config);
  const field = formatField(config, ["checkpoint_format", "format"]);
  const format = config.string(field, "gptq");
  if (format === "gptq") return "gptq";
  if (format === "gptq_v2") return "gptq_v2";
  return config.fail(field, `is "${format}"; gptq and gptq_v2 are read: ${INSTEAD}`);
}

function awq(config: JsonFields): Packing {
  requireBits(config, config.has("w_bit") ? "w_bit" : "bits", [AWQ_BITS]);
  requireWord(config);
  const field = formatField(config, ["version", "checkpoint_format", "format"]);
  const version = config.string(field, "gemm").toLowerCase();
  if (version !== "gemm") config.fail(field, `is "${version}"; only gemm is read: ${INSTEAD}`);
  return "awq";
}

const formatField = (config: JsonFields, names: [string, ...string[]]) =>
  names.find((name) => config.get(name) !== null) ?? names[0];

function requireWord(config: JsonFields): void {
  const word = config.string("pack_dtype", "int32");
  if (word !== "int32") config.fail("pack_dtype", `is "${word}"; only int32 is read: ${INSTEAD}`);
}

function requireBits(config: JsonFields, name: string, known: number[]): void {
  const bits = config.integer(name, 1, 64);
  if (!known.includes(bits)) config.fail(name, `is ${bits}; ${known.join(" and ")} are read: ${INSTEAD}`);
}

function compressedTensors(config: JsonFields): Packing {
  const sparsity = config.object("sparsity_config")?.string("format", "dense") ?? "dense";
  if (sparsity !== "dense") config.fail("sparsity_config.format", `is "${sparsity}", which is not read: ${INSTEAD}`);
  const transforms = config.object("transform_config")?.object("config_groups");
  if (transforms && transforms.names.length > 0) {
    config.fail("transform_config", `asks for rotated activations, which are not computed: ${INSTEAD}`);
  }
  if (config.get("kv_cache_scheme") !== null) {
    config.fail("kv_cache_scheme", `asks for a quantised cache, which is not computed: ${INSTEAD}`);
  }
  const groups: JsonFields = config.object("config_groups") ?? config.fail("config_groups", "is missing");
  for (const name of groups.names) {
    const group: JsonFields = groups.object(name) ?? groups.fail(name, "must be an object");
    const packed = group.get("format") === null ? config : group;
    const format = packed.string("format");
    if (format !== "pack-quantized") packed.fail("format", `is "${format}"; only pack-quantized is read: ${INSTEAD}`);
    for (const activations of ["input_activations", "output_activations"]) {
      if (group.get(activations) !== null) {
        group.fail(activations, `asks for quantised activations, which are not computed as it says: ${INSTEAD}`);
      }
    }
    const weights: JsonFields = group.object("weights") ?? group.fail("weights", "is missing");
    requireBits(weights, "num_bits", packedBits());
    const type = weights.string("type", "int");
    if (type !== "int") weights.fail("type", `is "${type}"; only int is read: ${INSTEAD}`);
    const strategy = weights.string("strategy", "channel");
    if (strategy !== "group" && strategy !== "channel") {
      weights.fail("strategy", `is "${strategy}"; group and channel are read: ${INSTEAD}`);
    }
  }
  return "compressed_tensors";
}

/** What a matrix is made of, by what follows the module's name. */
const PARTS = {
  compressed_tensors: {
    codes: "weight_packed",
    scales: "weight_scale",
    zeros: "weight_zero_point",
    order: "weight_g_idx",
  },
  gptq: { codes: "qweight", scales: "scales", zeros: "qzeros", order: "g_idx" },
  gptq_v2: { codes: "qweight", scales: "scales", zeros: "qzeros", order: "g_idx" },
  awq: { codes: "qweight", scales: "scales", zeros: "qzeros", order: "g_idx" },
} as const;

/**
 * Takes what a weight of `shape` is made of out of `found`; null: it is not packed.
 * @throws ModelFileError naming the tensor that does not fit
 */
export async function takePacked(
  name: string,
  shape: number[],
  packing: Packing,
  found: Found,
): Promise<(TensorLocation & { packed: PackedTensor }) | null> {
  const module = name.replace(/\.weight$/, "");
  const take = (part: keyof (typeof PARTS)["awq"]): FoundTensor | undefined => {
    const tensor = found.get(`${module}.${PARTS[packing][part]}`);
    found.delete(`${module}.${PARTS[packing][part]}`);
    return tensor;
  };
  const codes = take("codes");
  const [outputs, inputs] = shape;
  if (!codes || outputs === undefined || inputs === undefined) return null;
  const fail = (part: keyof (typeof PARTS)["awq"], file: string, problem: string): never => {
    const tensor = `${module}.${PARTS[packing][part]}`;
    throw new ModelFileError(file, `${tensor} ${problem}`, { param: tensor });
  };
  if (isRouter(name)) return fail("codes", codes.file, `is a quantised router, which is not computed: ${INSTEAD}`);
  const [scales, zeros, order] = [take("scales"), take("zeros"), take("order")];
  found.delete(`${module}.weight_shape`);
  if (!scales) return fail("scales", codes.file, "is missing");
  if (!zeros && packing !== "compressed_tensors") return fail("zeros", codes.file, "is missing");

  const alongRows = packing === "compressed_tensors";
  const groups = scales.shape[alongRows ? 1 : 0] ?? 1;
  const group = inputs / groups;
  const words = codes.shape[alongRows ? 1 : 0]!;
  const bits = packing === "awq" ? AWQ_BITS : (32 * words) / inputs;
  const formats = packedFormats().filter((format) => format.bits === bits);
  if (formats.length === 0) {
    return fail("codes", codes.file, `has codes of ${bits} bits; ${packedBits().join(" and ")} are computed`);
  }
  // A larger group is several that share their scale.
  const [format] = formats.filter(({ numbers }) => group % numbers === 0).toSorted((a, b) => b.numbers - a.numbers);
  if (!format) {
    const least = Math.min(...formats.map(({ numbers }) => numbers));
    return fail(
      "scales",
      scales.file,
      `is for groups of ${group} of ${inputs} inputs; multiples of ${least} are computed`,
    );
  }
  const per = 32 / bits;
  const expected = {
    compressed_tensors: {
      codes: [outputs, inputs / per],
      scales: [outputs, groups],
      zeros: zeros?.dtype === "I8" ? [outputs, groups] : [Math.ceil(outputs / per), groups],
    },
    gptq: { codes: [inputs / per, outputs], scales: [groups, outputs], zeros: [groups, outputs / per] },
    awq: { codes: [inputs, outputs / per], scales: [groups, outputs], zeros: [groups, outputs / per] },
  }[packing === "gptq_v2" ? "gptq" : packing];
  for (const [part, tensor] of [
    ["codes", codes],
    ["scales", scales],
    ["zeros", zeros],
  ] as const) {
    if (tensor && tensor.shape.join() !== expected[part].join()) {
      fail(part, tensor.file, `has shape [${tensor.shape}], config.json asks for [${expected[part]}]`);
    }
  }
  if (codes.dtype !== "I32") fail("codes", codes.file, `has dtype ${codes.dtype}; I32 can be read`);
  if (!isFloatType(scales.dtype))
    fail("scales", scales.file, `has dtype ${scales.dtype}; F16, BF16 and F32 can be read`);
  if (zeros && zeros.dtype !== "I32" && !(alongRows && zeros.dtype === "I8")) {
    fail("zeros", zeros.file, `has dtype ${zeros.dtype}; I32 can be read`);
  }
  if (order && !(await isAscending(order, inputs, group))) {
    fail(
      "order",
      order.file,
      'spreads the groups over the inputs, which is not computed: quantise with desc_act false, or with actorder "weight"',
    );
  }
  const part = ({ file, offset, bytes, dtype }: FoundTensor) => ({ file, offset, bytes, dtype });
  const { file, offset, bytes } = codes;
  const packed: PackedTensor = { packing, group, scales: part(scales), ...(zeros && { zeros: part(zeros) }) };
  return { name, file, offset, bytes, dtype: format.name, shape, packed };
}

/**
 * Of a matrix of one expert, within what is fused, its codes and scales, whose names are put into `used`; null: it has none.
 * @throws ModelFileError naming the tensor that does not fit
 */
export function takeMicroscaled(
  name: string,
  shape: readonly number[],
  fused: FusedExperts | null,
  found: Found,
  used: Set<string>,
): (TensorLocation & { apart: ScalesApart }) | null {
  const [rows, columns] = shape;
  const blocks = `${fused?.name}_blocks`;
  const codes = found.get(blocks);
  if (!fused || !codes || rows === undefined || columns === undefined) return null;
  const scales: FoundTensor | undefined = found.get(`${fused.name}_scales`);
  const fail = (tensor: string, file: string, problem: string) =>
    new ModelFileError(file, `${tensor} ${problem}`, { param: tensor });
  if (!scales) throw fail(`${fused.name}_scales`, codes.file, "is missing");
  const stored = fused.strides ?? { first: 0, row: 1 };
  const all = rows * stored.row;
  if (columns % MICROSCALED_GROUP !== 0) {
    throw fail(blocks, codes.file, `has rows of ${columns} numbers, which are no whole groups of ${MICROSCALED_GROUP}`);
  }
  const groups = [fused.parts, all, columns / MICROSCALED_GROUP];
  for (const [suffix, tensor, expected] of [
    ["blocks", codes, [...groups, MICROSCALED_GROUP / 2]],
    ["scales", scales, groups],
  ] as const) {
    const { file, shape, dtype } = tensor;
    if (shape.join() !== expected.join()) {
      throw fail(`${fused.name}_${suffix}`, file, `has shape [${shape}], config.json asks for [${expected}]`);
    }
    if (dtype !== "U8") throw fail(`${fused.name}_${suffix}`, file, `has dtype ${dtype}; U8 can be read`);
    used.add(`${fused.name}_${suffix}`);
  }
  const part = ({ file, offset, bytes, dtype }: FoundTensor) => {
    const own = bytes / fused.parts;
    return { file, offset: offset + own * fused.part, bytes: own, dtype };
  };
  const apart = { scales: part(scales), first: stored.first, step: stored.row };
  return { name, shape: [...shape], ...part(codes), dtype: "MXFP4", apart };
}

/** Whether input i is in group i / group. */
async function isAscending(order: FoundTensor, inputs: number, group: number): Promise<boolean> {
  if (order.dtype !== "I32" || order.shape.join() !== String(inputs)) return false;
  const raw = await bytesOf(order);
  return Array.from({ length: inputs }, (_, i) => raw.readInt32LE(4 * i) === Math.floor(i / group)).every(Boolean);
}

/** Older programs give every quantised matrix a bias, of zeros where the model has none: these are taken out of `found`. */
export async function dropZeroBiases(modules: readonly string[], found: Found): Promise<void> {
  for (const module of modules) {
    const bias = found.get(`${module}.bias`);
    if (bias && isFloatType(bias.dtype) && (await bytesOf(bias)).every((byte) => byte === 0))
      found.delete(`${module}.bias`);
  }
}

async function bytesOf({ file, offset, bytes }: FoundTensor): Promise<Buffer> {
  const handle = await openRegularFile(file);
  try {
    const raw = Buffer.alloc(bytes);
    if (!(await readAt(handle, raw, offset))) throw new ModelFileError(file, "became shorter while it was read");
    return raw;
  } finally {
    await handle.close();
  }
}
