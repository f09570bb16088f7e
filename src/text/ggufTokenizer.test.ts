// Tokenizers out of GGUF metadata, made of tokenizer.json as llama.cpp's converter makes it: the same ids as tokenizer.json's own.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { ggufBytes, type Value } from "../../test/fixtures/ggufBytes.js";
import { vocabularyMetadata } from "../gguf/vocabularyMetadata.js";
import { writeGguf } from "../gguf/writeGguf.js";
import { loadTokenizer } from "./tokenizer.js";
import { readTokenizerFolder } from "./tokenizerFolder.js";

const REFERENCE = fileURLToPath(new URL("../../test/reference/tokenizers/", import.meta.url));
const TINY = fileURLToPath(new URL("../../models/tiny/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "anneal-gguf-tokenizer-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const json = (name: string, file: string) => JSON.parse(readFileSync(join(REFERENCE, name, file), "utf8"));

const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

/** A copy of a reference tokenizer's folder, named `as`, with another tokenizer.json. */
function changedFolder(name: string, as: string, tokenizer: object): string {
  const own = join(folder, as);
  cpSync(join(REFERENCE, name), own, { recursive: true });
  writeFileSync(join(own, "tokenizer.json"), JSON.stringify(tokenizer));
  return own;
}

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
  const lists = pre === "gemma4";
  const isSentencePiece = pre === null || lists;
  const listed: Record<string, Value> = { "tokenizer.ggml.merges": { array: "string", values: merges } };
  const kind = (text: string, i: number) => kinds.get(i) ?? (isSentencePiece && /^<0x..>$/.test(text) ? BYTE : NORMAL);
  // SentencePiece's score of a token is its rank among those that merges make.
  const ranks = new Map(merges.toReversed().map((merge, i) => [merge.replace(" ", ""), -(merges.length - 1 - i)]));
  return {
    "tokenizer.ggml.model": { string: lists ? "gemma4" : pre === null ? "llama" : "gpt2" },
    ...(pre === null
      ? { "tokenizer.ggml.scores": { array: "float32", values: tokens.map((text) => ranks.get(text) ?? -1e6) } }
      : lists
        ? { ...listed, "tokenizer.ggml.add_space_prefix": { boolean: true } }
        : { ...listed, "tokenizer.ggml.pre": { string: pre } }),
    "tokenizer.ggml.tokens": { array: "string", values: tokens },
    "tokenizer.ggml.token_type": { array: "int32", values: tokens.map(kind) },
    "tokenizer.ggml.add_bos_token": { boolean: ["llama2", "llama3"].includes(name) },
    ...id("bos"),
    ...id("eos"),
    ...(isSentencePiece ? { "tokenizer.ggml.unknown_token_id": { uint32: 0 } } : {}),
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
  // Whose merges are listed.
  ["llama2", "gemma4"],
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

it("splits as gpt-4o's kind does: within words too, and with what follows an apostrophe", async () => {
  const tokenizer = await loadTokenizer(written(metadataOf("llama3", "gpt-4o")));
  const text = "camelCase HTTPServer it's IT'S we'LL 12345 a//b\n\n x";
  // Of Hugging Face's tokenizer with this splitting.
  expect(tokenizer.encode(text)).toEqual([
    66, 389, 75, 34, 577, 700, 51, 51, 47, 50, 260, 318, 354, 464, 560, 51, 6, 50, 744, 6, 43, 43, 220, 635, 18, 19, 20,
    258, 484, 65, 640, 220, 87,
  ]);
  await tokenizer.close();
});

it.each(["gpt2", "llama3", "qwen", "llama2"])("%s written gives the ids that it gives itself", async (name) => {
  const own = await loadTokenizer(join(REFERENCE, name));
  const source = await readTokenizerFolder(join(REFERENCE, name));
  const { metadata, isNamed } = vocabularyMetadata(
    { ...source, file: "tokenizer.json", addsBos: name.startsWith("llama"), addsEos: false, endIds: [own.eosId!] },
    own.vocabSize + 3,
    "llama",
  );
  expect(isNamed).toBe(true);
  const file = join(folder, `${name}.gguf`);
  await writeGguf(file, metadata, [], () => undefined);
  const read = await loadTokenizer(file);
  const texts = (json(name, "random_cases.json").texts as { text: string }[]).map(({ text }) => text);
  for (const text of [...texts, ...source.addedTokens.map(({ content }) => `a${content} b`)]) {
    expect([text, read.encode(text)]).toEqual([text, own.encode(text)]);
    expect([text, read.encode(text, { addSpecialTokens: true })]).toEqual([
      text,
      own.encode(text, { addSpecialTokens: true }),
    ]);
  }
  expect([read.bosId, read.eosId, read.chatTemplate]).toEqual([own.bosId, own.eosId, own.chatTemplate]);
  await Promise.all([own.close(), read.close()]);
});

it("one that ends texts with its eos token does so when it is read again", async () => {
  const base = join(REFERENCE, "qwen");
  const source = await readTokenizerFolder(base);
  const own = await loadTokenizer(base);
  const file = join(folder, "ends.gguf");
  const vocabulary = { ...source, file: "", addsBos: false, addsEos: true, endIds: [own.eosId!] };
  await writeGguf(file, vocabularyMetadata(vocabulary, own.vocabSize, "qwen3").metadata, [], () => undefined);
  const read = await loadTokenizer(file);
  expect(read.encode("a b", { addSpecialTokens: true })).toEqual([...own.encode("a b"), own.eosId]);
  await Promise.all([own.close(), read.close()]);
});

it("one whose added tokens take the blanks behind them does so when it is read again, and by the name of Phi-3", async () => {
  const source = await readTokenizerFolder(join(REFERENCE, "llama2"));
  const added = source.tokenizer.added_tokens as { content: string; rstrip: boolean }[];
  added.find(({ content }) => content === "</s>")!.rstrip = true;
  const tokenizers = [await loadTokenizer(changedFolder("llama2", "blanks", source.tokenizer))];
  const vocabulary = { ...source, file: "", addsBos: true, addsEos: false, endIds: [2] };
  const { metadata, isNamed } = vocabularyMetadata(vocabulary, tokenizers[0]!.vocabSize, "phi3");
  expect(isNamed).toBe(true);
  const bare = [...metadata].filter(([key]) => key !== "tokenizer.huggingface.json");
  const named = (name: string) => new Map(bare).set("general.name", { string: name });
  for (const [i, written] of [metadata, new Map(bare), named("Llama 2"), named("Phi-3-mini")].entries()) {
    await writeGguf(join(folder, `blanks-${i}.gguf`), written, [], () => undefined);
    tokenizers.push(await loadTokenizer(join(folder, `blanks-${i}.gguf`)));
  }
  const [ids, whole, unnamed, llama2, phi3] = tokenizers.map((tokenizer) => tokenizer.encode("a</s>\n b<s>\nc"));
  expect([whole, phi3]).toEqual([ids, ids]);
  for (const kept of [unnamed!, llama2!]) expect(kept).toHaveLength(ids!.length + 2);
  for (const tokenizer of tokenizers) await tokenizer.close();
});

it("one of single bytes, which merges nothing, gives the ids that it gives itself", async () => {
  const source = await readTokenizerFolder(join(REFERENCE, "gpt2"));
  const { model } = source.tokenizer as { model: { merges: unknown[] } };
  model.merges = [];
  const file = join(folder, "bytes.gguf");
  const tokenizers = [await loadTokenizer(changedFolder("gpt2", "bytes", source.tokenizer))];
  const vocabulary = { ...source, file: "", addsBos: false, addsEos: false, endIds: [tokenizers[0]!.eosId!] };
  await writeGguf(
    file,
    vocabularyMetadata(vocabulary, tokenizers[0]!.vocabSize, "llama").metadata,
    [],
    () => undefined,
  );
  tokenizers.push(await loadTokenizer(file));
  const [ids, read] = tokenizers.map((tokenizer) => tokenizer.encode("héllo 12"));
  expect(read).toEqual(ids);
  expect(ids).toHaveLength(9);
  for (const tokenizer of tokenizers) await tokenizer.close();
});

it("one of Gemma 4, whose merges are listed, gives the ids that it gives itself", async () => {
  const source = await readTokenizerFolder(join(REFERENCE, "llama2"));
  const replace = { type: "Replace", pattern: { String: " " }, content: "▁" };
  const merged = { ...source, tokenizer: { ...source.tokenizer, normalizer: replace, pre_tokenizer: null } };
  const file = join(folder, "gemma4.gguf");
  const tokenizers = [await loadTokenizer(changedFolder("llama2", "gemma4", merged.tokenizer))];
  const vocabulary = { ...merged, file: "tokenizer.json", addsBos: true, addsEos: false, endIds: [2] };
  const { metadata, isNamed } = vocabularyMetadata(vocabulary, tokenizers[0]!.vocabSize, "gemma4");
  expect([isNamed, metadata.get("tokenizer.ggml.model")]).toEqual([true, { string: "gemma4" }]);
  expect(metadata.has("tokenizer.ggml.scores")).toBe(false);
  await writeGguf(file, metadata, [], () => undefined);
  tokenizers.push(await loadTokenizer(file));
  for (const { text } of json("llama2", "random_cases.json").texts as { text: string }[]) {
    const [wanted, read] = tokenizers.map((tokenizer) => tokenizer.encode(text, { addSpecialTokens: true }));
    expect([text, read]).toEqual([text, wanted]);
  }
  for (const tokenizer of tokenizers) await tokenizer.close();
});

it("one that splits texts in no known way travels whole", async () => {
  const source = await readTokenizerFolder(TINY);
  const own = await loadTokenizer(TINY);
  const { metadata, isNamed } = vocabularyMetadata(
    { ...source, file: "", addsBos: false, addsEos: false, endIds: [2] },
    own.vocabSize,
    "llama",
  );
  expect(isNamed).toBe(false);
  const file = join(folder, "tiny.gguf");
  await writeGguf(file, metadata, [], () => undefined);
  const read = await loadTokenizer(file);
  for (const text of ['Reverse "river".', "12 + 30 = 42", "it's (here)", "<|im_start|>user"])
    expect(read.encode(text)).toEqual(own.encode(text));
  await Promise.all([own.close(), read.close()]);
  for (const [whole, fault] of [
    ["{", /is not JSON/],
    ["[]", /must hold a JSON object/],
  ] as const) {
    const broken = join(folder, "broken.gguf");
    rmSync(broken, { force: true });
    await writeGguf(
      broken,
      new Map([...metadata, ["tokenizer.huggingface.json", { string: whole }]]),
      [],
      () => undefined,
    );
    await expect(loadTokenizer(broken)).rejects.toThrow(fault);
  }
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
