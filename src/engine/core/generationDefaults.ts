import { existsSync } from "node:fs";
import { join } from "node:path";
import { ggufGenerationConfig } from "../../gguf/ggufConfig.js";
import { isGguf, readGguf } from "../../gguf/ggufFile.js";
import { type SamplingName, samplingNumbers } from "../../samplingNumbers.js";
import {
  type ChatTemplate,
  GEMMA4_ENDS,
  HARMONY_ENDS,
  HARMONY_MESSAGE_END,
  isGemma4,
  isHarmony,
  type Tokenizer,
} from "../../text/index.js";
import { JsonFields } from "../../weights/jsonFields.js";

/** What a model folder says about sampling. */
export interface GenerationDefaults extends Partial<Record<SamplingName, number>> {
  max_new_tokens?: number;
  /** Tokens that end a reply. */
  eos_token_id: number[];
}

function ids(fields: JsonFields, name: string): number[] {
  const value = fields.get(name) ?? [];
  const list: unknown[] = Array.isArray(value) ? value : [value];
  if (list.every((id): id is number => Number.isInteger(id) && (id as number) >= 0)) return list;
  return fields.fail(name, "must be a token id or a list of them");
}

/**
 * Reads generation_config.json, and from config.json the end tokens if that does not name them.
 * @throws ModelFileError naming file and field
 */
export async function readGenerationDefaults(folder: string): Promise<GenerationDefaults> {
  if (isGguf(folder)) {
    const fields = new JsonFields(folder, ggufGenerationConfig(await readGguf(folder)));
    return { eos_token_id: ids(fields, "eos_token_id") };
  }
  const config = await JsonFields.read(join(folder, "config.json"));
  const file = join(folder, "generation_config.json");
  const given = existsSync(file) ? await JsonFields.read(file) : new JsonFields(file, {});
  const number = (name: string, min: number, max: number) =>
    given.get(name) === null ? undefined : given.number(name, min, max);
  const ends = ids(given, "eos_token_id");
  return {
    ...Object.fromEntries(
      samplingNumbers.flatMap(({ name, folder }) => (folder ? [[name, number(name, ...folder)]] : [])),
    ),
    max_new_tokens: number("max_new_tokens", 1, Number.MAX_SAFE_INTEGER),
    eos_token_id: ends.length > 0 ? ends : ids(config, "eos_token_id"),
  };
}

/**
 * The same with the tokens that the template's replies end with, which not every folder and few GGUF files name, and without the
 * one that ends each of their messages.
 */
export function withReplyEnds(
  defaults: GenerationDefaults,
  template: Pick<ChatTemplate, "source"> | null,
  tokenizer: Pick<Tokenizer, "tokenToId">,
): GenerationDefaults {
  const harmony = template !== null && isHarmony(template.source);
  const known = harmony ? HARMONY_ENDS : template !== null && isGemma4(template.source) ? GEMMA4_ENDS : [];
  const ends = known.map((end) => tokenizer.tokenToId(end)).filter((id) => id !== null);
  const messageEnd = harmony ? tokenizer.tokenToId(HARMONY_MESSAGE_END) : null;
  const all = new Set([...defaults.eos_token_id, ...ends]);
  return { ...defaults, eos_token_id: [...all].filter((id) => id !== messageEnd) };
}
