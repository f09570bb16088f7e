// What a folder in the layout of sentence-transformers says of the vectors that its model makes: modules.json, and the configurations
// of the modules.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { ModelFileError } from "../errors.js";
import { readRegularFile } from "../regularFile.js";
import { JsonFields } from "./jsonFields.js";

export interface EmbeddingSpec {
  /** Which hidden states make the vector: the last token's, the first one's, or the mean of all. */
  pooling: "last" | "cls" | "mean";
  /** Vectors have length 1. */
  normalize: boolean;
  /** Tokens of a text at most; null: as many as the context has. */
  maxTokens: number | null;
}

const MODULES = "modules.json";

/** By the field of the pooling's configuration that is true. */
const POOLINGS: Readonly<Record<string, EmbeddingSpec["pooling"]>> = {
  pooling_mode_lasttoken: "last",
  pooling_mode_cls_token: "cls",
  pooling_mode_mean_tokens: "mean",
};

/**
 * null: the folder is no embedding model.
 * @throws ModelFileError for modules and poolings that are not computed here
 */
export async function readEmbeddingFolder(folder: string): Promise<EmbeddingSpec | null> {
  const file = join(folder, MODULES);
  if (!existsSync(file)) return null;
  const spec: EmbeddingSpec = { pooling: "mean", normalize: false, maxTokens: await maxTokens(folder) };
  for (const module of await modulesOf(file)) {
    const type = module.string("type");
    const kind = type.slice(type.lastIndexOf(".") + 1);
    if (kind === "Pooling") spec.pooling = await poolingOf(folder, module);
    else if (kind === "Normalize") spec.normalize = true;
    else if (kind !== "Transformer") {
      module.fail("type", `is "${type}"; Transformer, Pooling and Normalize are computed`);
    }
  }
  return spec;
}

async function modulesOf(file: string): Promise<JsonFields[]> {
  const text = (await readRegularFile(file, 2 ** 20)).toString("utf8");
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch (cause) {
    throw new ModelFileError(file, "is not valid JSON", { cause });
  }
  if (!Array.isArray(list)) throw new ModelFileError(file, "is not a list of modules");
  return list.map((module, i) => new JsonFields(file, module, String(i)));
}

async function poolingOf(folder: string, module: JsonFields): Promise<EmbeddingSpec["pooling"]> {
  const path = module.string("path");
  if (!/^[\w-]+$/.test(path)) module.fail("path", `is "${path}", which is not the name of a folder in the folder`);
  const fields = await JsonFields.read(join(folder, path, "config.json"));
  // Newer folders name the mode.
  const named = fields.get("pooling_mode");
  const modes =
    typeof named === "string"
      ? [`pooling_mode_${named === "mean" ? "mean_tokens" : named === "cls" ? "cls_token" : named}`]
      : fields.names.filter((name) => name.startsWith("pooling_mode_") && fields.get(name) === true);
  const pooling = modes.length === 1 ? POOLINGS[modes[0]!] : undefined;
  if (pooling !== undefined) return pooling;
  return fields.fail(
    "pooling_mode",
    `is ${modes.join(" and ") || "none"}; one of ${Object.keys(POOLINGS).join(", ")} is computed`,
  );
}

const MAX_TOKENS = 2 ** 24;

/** Of sentence_bert_config.json, else of the tokenizer, where newer folders have it. */
async function maxTokens(folder: string): Promise<number | null> {
  const file = join(folder, "sentence_bert_config.json");
  const fields = existsSync(file) ? await JsonFields.read(file) : null;
  const name = "max_seq_length";
  if (fields && fields.get(name) !== null) return fields.integer(name, 1, MAX_TOKENS);
  const tokenizer = join(folder, "tokenizer_config.json");
  const length = existsSync(tokenizer) ? (await JsonFields.read(tokenizer)).get("model_max_length") : null;
  // transformers writes 1e30 for one without a bound.
  const isBound = Number.isInteger(length) && (length as number) >= 1 && (length as number) <= MAX_TOKENS;
  return isBound ? (length as number) : null;
}
