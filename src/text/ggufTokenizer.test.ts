// Tokenizers out of GGUF metadata, made of tokenizer.json as llama.cpp's converter makes it: the same ids as tokenizer.json's own.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { ggufBytes, type Value } from "../../test/fixtures/ggufBytes.js";
import { loadTokenizer } from "./tokenizer.js";

const REFERENCE = fileURLToPath(new URL("../../test/reference/tokenizers/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "anneal-gguf-tokenizer-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const json = (name: string, file: string) => JSON.parse(readFileSync(join(REFERENCE, name, file), "utf8"));

const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

interface Added {
  id: number;
  content: string;
  special: boolean;
}

function metadataOf(name: string, pre: string | null): Record<string, Value> {
  const { model, added_tokens } = json(name, "tokenizer.json");
  const config = json(name, "tokenizer_config.json");
  const texts = new Map<number, string>(Object.entries<number>(model.vocab).map(([text, id]) => [id, text]));
  const kinds = new Map<number, number>();
  for (const { id, content, special } of added_tokens as Added[]) {
    texts.set(id, content);
    kinds.set(id, content === "<unk>" ? UNKNOWN : special ? CONTROL : USER_DEFINED);
  }
  const tokens = Array.from({ length: texts.size }, (_, id) => texts.get(id)!);
  const merges: string[] = model.merges.map((merge: string | string[]) =>
    Array.isArray(merge) ? merge.join(" ") : merge,
  );
  const id = (key: string): Record<string, Value> => {
    const found = tokens.indexOf(config[`${key}_token`]);
    return found < 0 ? {} : { [`tokenizer.ggml.${key}_token_id`]: { uint32: found } };
  };
  const kind = (text: string, i: number) => kinds.get(i) ?? (pre === null && /^<0x..>$/.test(text) ? BYTE : NORMAL);
  // SentencePiece's score of a token is its rank among those that merges make.
  const ranks = new Map(merges.toReversed().map((merge, i) => [merge.replace(" ", ""), -(merges.length - 1 - i)]));
  return {
    "tokenizer.ggml.model": { string: pre === null ? "llama" : "gpt2" },
    ...(pre === null
      ? { "tokenizer.ggml.scores": { array: "float32", values: tokens.map((text) => ranks.get(text) ?? -1e6) } }
      : { "tokenizer.ggml.pre": { string: pre }, "tokenizer.ggml.merges": { array: "string", values: merges } }),
    "tokenizer.ggml.tokens": { array: "string", values: tokens },
    "tokenizer.ggml.token_type": { array: "int32", values: tokens.map(kind) },
    "tokenizer.ggml.add_bos_token": { boolean: ["llama2", "llama3"].includes(name) },
    ...id("bos"),
    ...id("eos"),
    ...(pre === null ? { "tokenizer.ggml.unknown_token_id": { uint32: 0 } } : {}),
    "tokenizer.chat_template": { string: "{{ messages[0].content }}" },
  };
}

function written(metadata: Record<string, Value>): string {
  const file = join(folder, "vocabulary.gguf");
  writeFileSync(file, ggufBytes({ metadata }));
  return file;
}

it.each([
  ["gpt2", "gpt-2"],
  ["llama3", "llama-bpe"],
  ["qwen", "qwen2"],
  ["llama2", null],
])("%s gives the ids of its tokenizer.json", async (name, pre) => {
  const tokenizer = await loadTokenizer(written(metadataOf(name, pre)));
  const own = await loadTokenizer(join(REFERENCE, name));
  const cases: { text: string; ids: number[]; ids_without_special: number[]; decoded: string }[] = json(
    name,
    "cases.json",
  );
  expect(cases.length).toBeGreaterThan(50);
  for (const { text, ids, ids_without_special, decoded } of cases) {
    expect([text, tokenizer.encode(text)]).toEqual([text, ids_without_special]);
    expect([text, tokenizer.encode(text, { addSpecialTokens: true })]).toEqual([text, ids]);
    expect([text, tokenizer.decode(ids, { skipSpecialTokens: true })]).toEqual([text, decoded]);
  }
  for (const { text, ids } of json(name, "random_cases.json").texts as { text: string; ids: number[] }[]) {
    expect([text, tokenizer.encode(text)]).toEqual([text, ids]);
  }
  expect([...tokenizer.specialIds].toSorted()).toEqual([...own.specialIds].toSorted());
  expect([tokenizer.vocabSize, tokenizer.bosId, tokenizer.eosId]).toEqual([own.vocabSize, own.bosId, own.eosId]);
  expect(tokenizer.chatTemplate).toBe("{{ messages[0].content }}");
  await Promise.all([tokenizer.close(), own.close()]);
});

it.each<[string, Record<string, Value>, RegExp]>([
  [
    "an unknown split",
    { "tokenizer.ggml.pre": { string: "falcon" } },
    /tokenizer.ggml.pre is "falcon"; known are gpt-2/,
  ],
  ["an unknown kind", { "tokenizer.ggml.model": { string: "bert" } }, /tokenizer.ggml.model is "bert"/],
  ["an id past the tokens", { "tokenizer.ggml.eos_token_id": { uint32: 99_999 } }, /eos_token_id is 99999; there are/],
  [
    "kinds for other tokens",
    { "tokenizer.ggml.token_type": { array: "int32", values: [1] } },
    /token_type has 1 entries/,
  ],
  ["merges that are none", { "tokenizer.ggml.merges": { array: "string", values: ["ab"] } }, /no pair in entry 0/],
  [
    "tokens that are no texts",
    { "tokenizer.ggml.tokens": { array: "int32", values: [1] } },
    /must be a list of strings/,
  ],
])("refuses %s", async (_, change, message) => {
  const file = written({ ...metadataOf("gpt2", "gpt-2"), ...change });
  await expect(loadTokenizer(file)).rejects.toThrow(message);
});
