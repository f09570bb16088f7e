import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { EncoderTokenizer } from "./encoderTokenizer.js";
import { loadUntriedTokenizer } from "./tokenizer.js";

interface Layout {
  tokenizer: { model: { type: string } };
  cases: { text: string; ids: number[]; decoded: string }[];
}

const file = new URL("../../test/reference/tokenizers/layouts.json", import.meta.url);
const layouts = JSON.parse(await readFile(file, "utf8")) as Record<string, Layout>;

it.each(Object.entries(layouts))("gives the ids and texts of the Rust library: %s", async (_, { tokenizer, cases }) => {
  const path = await mkdtemp(join(tmpdir(), "anneal-layout-"));
  await writeFile(join(path, "tokenizer.json"), JSON.stringify(tokenizer));
  await writeFile(join(path, "tokenizer_config.json"), "{}");
  if (tokenizer.model.type === "WordPiece") {
    const loaded = await EncoderTokenizer.load(path);
    for (const { text, ids } of cases) expect([...loaded.encode(text, 1000).ids], JSON.stringify(text)).toEqual(ids);
  } else {
    const loaded = await loadUntriedTokenizer(path);
    for (const { text, ids, decoded } of cases) {
      expect(loaded.encode(text), JSON.stringify(text)).toEqual(ids);
      expect(loaded.decode(ids), JSON.stringify(text)).toBe(decoded);
    }
  }
  await rm(path, { recursive: true });
});

it("takes no steps from tokenizer_config.json that tokenizer.json does not have", async () => {
  const path = await mkdtemp(join(tmpdir(), "anneal-layout-"));
  await writeFile(join(path, "tokenizer.json"), JSON.stringify(layouts["metaspace unsplit"]!.tokenizer));
  const settings = { remove_space: true, do_lowercase_and_remove_accent: true };
  await writeFile(join(path, "tokenizer_config.json"), JSON.stringify(settings));
  const { text, ids } = layouts["metaspace unsplit"]!.cases.find(({ text }) => text === "  a  a")!;
  expect((await loadUntriedTokenizer(path)).encode(text)).toEqual(ids);
  await rm(path, { recursive: true });
});

it("takes the white space beside a token that is found behind the normalizer", async () => {
  const path = await mkdtemp(join(tmpdir(), "anneal-layout-"));
  const added_tokens = [{ id: 3, content: "<N>", normalized: true, special: false, lstrip: true, rstrip: true }];
  const model = { type: "BPE", vocab: { a: 0, " ": 1, "\ufeff": 2 }, merges: [] };
  const none = { pre_tokenizer: null, post_processor: null, decoder: null };
  const tokenizer = { ...none, added_tokens, normalizer: { type: "Lowercase" }, model };
  await writeFile(join(path, "tokenizer.json"), JSON.stringify(tokenizer));
  expect((await loadUntriedTokenizer(path)).encode("A <n>  \ufeffA <N> A")).toEqual([0, 3, 2, 0, 3, 0]);
  await rm(path, { recursive: true });
});
