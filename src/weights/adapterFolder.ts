// LoRA adapters in PEFT's folder layout: adapter_config.json and adapter_model.safetensors.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { ADAPTER_MODULES, type AdapterModule, adapterModuleNames } from "../adapterModules.js";
import { BadRequestError, ModelFileError } from "../errors.js";
import { type AdapterSpec, adapterTensors, type ModelSpec, type NamedTensors } from "../runtime/runtime.js";
import { modulesOf } from "./adapterModules.js";
import { towerNamed } from "./families.js";
import { JsonFields } from "./jsonFields.js";
import {
  readSafetensors,
  safetensorsPieces,
  streamed,
  streamOf,
  type TensorStream,
  writeWhole,
} from "./safetensors.js";

const CONFIG_FILE = "adapter_config.json";
const TENSOR_FILE = "adapter_model.safetensors";

const MODULES: string[] = adapterModuleNames;
const IN_A_LAYER = /^(.+\.)?layers\.\d+\./;
const PLACES = Object.entries(ADAPTER_MODULES).flatMap(([name, places]) => places.map((place) => `${place}\\.${name}`));
const TENSOR_NAME = new RegExp(
  `^base_model\\.model\\.model\\.layers\\.\\d+\\.(${PLACES.join("|")})\\.lora_([AB])\\.weight$`,
);

const OF_EXPERTS = /\.(experts|gate|router|shared_expert|shared_expert_gate)\./;
const EXPERT_PARAMETER = /^(gate_up_proj|down_proj)$|(^|\.)(experts|gate|router|shared_expert|shared_expert_gate)\./;
const EXPERTS_STAY = "adapts experts or their router, which is not supported: adapt the attention of such a model";

/** Options of PEFT under which an adapter means something else; each must be absent, false, null or empty. */
const UNSUPPORTED = [
  "use_dora",
  "lora_bias",
  "fan_in_fan_out",
  "modules_to_save",
  "rank_pattern",
  "alpha_pattern",
  "layer_replication",
  "trainable_token_indices",
  "target_parameters",
  "loftq_config",
  "use_qalora",
  "use_bdlora",
  "alora_invocation_tokens",
  "arrow_config",
  "kasa_config",
  "velora_config",
  "monteclora_config",
];
/** Ways of initialising that leave the base weights as they are. Others change them, so that the adapter fits no ordinary base. */
const HARMLESS_INITIALISATION = [true, false, null, "gaussian", "eva", "orthogonal"];

export interface StoredAdapter {
  /** Its targets are modules that the adapter adapts in one layer at least. */
  spec: AdapterSpec;
  tensors: NamedTensors;
  /** Its configuration allows that layers are left out, which then have no tensors. */
  mayLeaveOut: boolean;
}

/**
 * Reads an adapter, its values widened to float32 and named as the runtime names them. With a `model`, nothing is read
 * of an adapter whose tensors do not fit it.
 * @throws ModelFileError when a file is missing or damaged, or the adapter needs what is not supported.
 */
export async function readAdapterFolder(folder: string, model?: ModelSpec): Promise<StoredAdapter> {
  const fields = await JsonFields.read(join(folder, CONFIG_FILE));
  const spec = adapterSpec(fields);
  const file = join(folder, TENSOR_FILE);
  if (!existsSync(file) && existsSync(join(folder, "adapter_model.bin"))) {
    throw new ModelFileError(file, "is missing; adapter_model.bin is not read", {
      hint: "save the adapter with safe_serialization=True",
    });
  }
  const mayLeaveOut = namesLayers(fields);
  /** By the name in the file. */
  const names = new Map<string, string>();
  const found = new Set<string>();
  const { tensors: read } = await readSafetensors(file, (stored) => {
    const shapes = new Map<string, number[]>();
    for (const [own, { shape }] of stored) {
      // Older files carry the name of the adapter, those of models that see the place of their text.
      const name = own
        .replace(/\.(lora_[AB])\.default\.weight$/, ".$1.weight")
        .replace(/^(base_model\.model\.)(model\.language_model|language_model\.model)\./, "$1model.");
      const [, place, side] = TENSOR_NAME.exec(name) ?? [];
      if (!place) {
        const message = OF_EXPERTS.test(name) ? EXPERTS_STAY : "is no LoRA tensor of a known projection";
        throw new ModelFileError(file, `${own} ${message}`, { param: own });
      }
      const rank = shape[side === "A" ? 0 : 1];
      if (shape.length !== 2 || rank !== spec.rank) {
        const message = `${own} has shape [${shape}], which does not fit the rank ${spec.rank} of ${CONFIG_FILE}`;
        throw new ModelFileError(file, message, { param: own });
      }
      if (shapes.has(name)) throw new ModelFileError(file, `${own} is there twice`, { param: own });
      shapes.set(name, shape);
      names.set(own, name);
      found.add(place.split(".")[1]!);
    }
    if (model && shapes.size > 0) checkShapes(file, shapes, model, { ...spec, targets: [...found] });
  });
  const tensors: NamedTensors = new Map([...read].map(([own, tensor]) => [names.get(own)!, tensor]));
  if (spec.targets.length === 0 || mayLeaveOut) spec.targets = MODULES.filter((name) => found.has(name));
  // Programs pass over what they were asked for and the model does not have, or experts alone have: they write no tensors of it.
  if (model) {
    const own: string[] = modulesOf(model);
    spec.targets = spec.targets.filter((name) => found.has(name) || own.includes(name));
  }
  if (spec.targets.length === 0) throw new ModelFileError(file, "has no tensors");
  return { spec, tensors, mayLeaveOut };
}

function checkShapes(file: string, shapes: ReadonlyMap<string, number[]>, model: ModelSpec, spec: AdapterSpec): void {
  const fail = (message: string, param: string | null, cause?: unknown) =>
    new ModelFileError(file, message, { param, cause });
  let expected: Map<string, number[]>;
  try {
    expected = new Map(adapterTensors(model, spec).map(({ name, shape }) => [name, shape]));
  } catch (error) {
    if (!(error instanceof BadRequestError)) throw error;
    throw fail(error.message, error.param, error);
  }
  for (const [name, shape] of shapes) {
    const fitting = expected.get(name);
    if (!fitting) throw fail(`${name} is no tensor of this model`, name);
    if (shape.join() !== fitting.join()) throw fail(`${name} must have the shape [${fitting.join(", ")}]`, name);
  }
}

/** Gives a pair of zeros, which change nothing and learn nothing, to the layers that an adapter of `model` leaves out. */
export function withLeftOutLayers(model: ModelSpec, { spec, tensors, mayLeaveOut }: StoredAdapter): NamedTensors {
  if (!mayLeaveOut) return tensors;
  const whole = new Map(tensors);
  for (const { name, shape } of adapterTensors(model, spec)) {
    const other = name.replace(/lora_[AB]/, (side) => (side === "lora_A" ? "lora_B" : "lora_A"));
    // Half a pair is a damaged file, as the runtime will say.
    if (tensors.has(name) || tensors.has(other)) continue;
    whole.set(name, { shape, data: new Float32Array(shape.reduce((all, length) => all * length, 1)) });
  }
  return whole;
}

/** What it is, without its values. @throws ModelFileError as `readAdapterFolder` */
export async function readAdapterSpec(folder: string): Promise<AdapterSpec> {
  return adapterSpec(await JsonFields.read(join(folder, CONFIG_FILE)));
}

function adapterSpec(fields: JsonFields): AdapterSpec {
  const type = fields.string("peft_type");
  if (type !== "LORA") fields.fail("peft_type", `is "${type}"; only LORA is supported`);
  // Experts are told by it in newer versions, also where their modules were asked for.
  const parameters = fields.get("target_parameters");
  if (Array.isArray(parameters) && parameters.some((name) => EXPERT_PARAMETER.test(name))) {
    fields.fail("target_parameters", `is ${JSON.stringify(parameters)}: it ${EXPERTS_STAY}`);
  }
  for (const name of UNSUPPORTED) {
    if (!isEmpty(fields.get(name))) fields.fail(name, `is ${JSON.stringify(fields.get(name))}, which is not supported`);
  }
  const bias = fields.string("bias", "none");
  if (bias !== "none") fields.fail("bias", `is "${bias}"; only none is supported`);
  if (!HARMLESS_INITIALISATION.includes(fields.get("init_lora_weights") as string)) {
    fields.fail("init_lora_weights", "changes the base weights, which is not supported");
  }
  return {
    rank: fields.integer("r", 1, 1024),
    alpha: fields.number("lora_alpha", 1e-6, 1e6),
    rslora: fields.boolean("use_rslora", false),
    targets: targetsOf(fields),
  };
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === false) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** Whether it says which layers it adapts, or leaves modules out by patterns or places, which may tell layers apart. */
function namesLayers(fields: JsonFields): boolean {
  if (!isEmpty(fields.get("layers_to_transform")) || !isEmpty(fields.get("exclude_modules"))) return true;
  const targets = fields.get("target_modules");
  if (typeof targets === "string") return targets !== "all-linear";
  return Array.isArray(targets) && targets.some((name) => IN_A_LAYER.test(name) || isOneOfSeveral(name));
}

/** "conv.out_proj": attention has another of the name. */
function isOneOfSeveral(target: string): boolean {
  const places = ADAPTER_MODULES[target.split(".").at(-1)! as AdapterModule] ?? [];
  return target.includes(".") && places.length > 1;
}

/** None: whatever it has tensors for, where it asks for all linear modules, gives a pattern, or a program did not say (null). */
function targetsOf(fields: JsonFields): string[] {
  const given = fields.get("target_modules");
  if (typeof given === "string" || (given === null && fields.has("target_modules"))) return [];
  const targets = fields.strings("target_modules").map((name) => {
    const inLayer = name.replace(IN_A_LAYER, "");
    const [place, module] = inLayer.includes(".") ? inLayer.split(".", 2) : [undefined, inLayer];
    const known = Object.entries(ADAPTER_MODULES).find(([own]) => own === module);
    if (OF_EXPERTS.test(`.${inLayer}.`)) fields.fail("target_modules", `contains "${name}": it ${EXPERTS_STAY}`);
    if (!known || (place !== undefined && !(known[1] as readonly string[]).includes(place))) {
      fields.fail("target_modules", `contains "${name}"; known are ${MODULES.join(", ")}`);
    }
    return known[0];
  });
  if (targets.length === 0) fields.fail("target_modules", "must name at least one projection");
  return MODULES.filter((module) => targets.includes(module));
}

/**
 * Writes an adapter into an existing folder so that PEFT loads it with `PeftModel.from_pretrained`. `baseType`: the `model_type` of
 * the base model, where that may be one that sees.
 */
export async function writeAdapterFolder(
  folder: string,
  spec: AdapterSpec,
  tensors: NamedTensors,
  baseModel: string,
  baseType = "",
): Promise<void> {
  for (const [name, pieces] of adapterFiles(spec, streamOf(tensors), baseModel, baseType)) {
    await writeWhole(join(folder, name), pieces);
  }
}

/** Names and contents, as `safetensorsPieces` gives these. */
export function adapterFiles(
  spec: AdapterSpec,
  tensors: TensorStream,
  baseModel: string,
  baseType = "",
): [name: string, pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>][] {
  const isInWhole = towerNamed(baseType)?.isWhole ?? false;
  const config = {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: baseModel,
    r: spec.rank,
    lora_alpha: spec.alpha,
    use_rslora: spec.rslora,
    target_modules: spec.targets,
    // Which have projections of the same names.
    ...(isInWhole && { exclude_modules: ".*(vision_tower|multi_modal_projector).*" }),
    lora_dropout: 0,
    bias: "none",
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    modules_to_save: null,
    use_dora: false,
  };
  const named = isInWhole ? streamed([[tensors, nameInWhole]]) : tensors;
  return [
    [TENSOR_FILE, safetensorsPieces(named, { format: "pt" })],
    [CONFIG_FILE, [Buffer.from(`${JSON.stringify(config, null, 2)}\n`)]],
  ];
}

const nameInWhole = (name: string) => name.replace("base_model.model.model.", "base_model.model.model.language_model.");
