import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Tokenizer as Library } from "@huggingface/tokenizers";
import { describe, expect, it } from "vitest";
import { cpuMilliseconds } from "../../test/fixtures/cpuTime.js";
import { PairMerges } from "./pairMerges.js";
import { loadTokenizer } from "./tokenizer.js";

const reference = (name: string) => new URL(`../../test/reference/tokenizers/${name}`, import.meta.url).pathname;

/** What is used here of the library's model. */
interface Model {
  merges: [string, string][];
  bpe(word: string): string[];
}

const ALPHABETS = ["ab", "aĠ", "Ġthequickbrow", "abcdefghijklmnopqrstuvwxyz0123456789ĠĊ▁", "▁thein a😀漢\uD800x"].map(
  (letters) => [...letters],
);

describe.each(["qwen", "llama3", "llama2", "gpt2"])("long words in the tokenizer %s", (name) => {
  it("become the tokens that Hugging Face's library makes of them", () => {
    const model = new Library(JSON.parse(readFileSync(join(reference(name), "tokenizer.json"), "utf8")), {})
      .model as unknown as Model;
    const merges = new PairMerges(model.merges);
    let state = 7;
    const random = (below: number) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    for (let trial = 0; trial < 500; trial++) {
      const letters = ALPHABETS[trial % ALPHABETS.length]!;
      const length = 1 + random(trial % 50 === 0 ? 2000 : 60);
      const word = Array.from({ length }, () => letters[random(letters.length)]).join("");
      expect(merges.merge(word), JSON.stringify(word)).toEqual(model.bpe(word));
    }
    expect(merges.merge("")).toEqual([]);
  });

  it("take microseconds a character", async () => {
    const tokenizer = await loadTokenizer(reference(name));
    const begin = cpuMilliseconds();
    for (const word of ["a", " ", "the"]) {
      const text = word.repeat(200_000 / word.length);
      const ids = tokenizer.encode(text);
      expect(tokenizer.decode(ids)).toBe(text);
    }
    // The library takes four seconds for each of the first two.
    expect(cpuMilliseconds() - begin).toBeLessThan(3_000);
    await tokenizer.close();
  });
});

it("a word of a million characters has tokens in a vocabulary with scores, too", async () => {
  const folder = await mkdtemp(join(tmpdir(), "anneal-unigram-"));
  const vocab = ["<unk>", "▁", "a", "b"].map((token, i) => [token, -i]);
  const metaspace = { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true };
  const model = { type: "Unigram", unk_id: 0, vocab, byte_fallback: false };
  await writeFile(
    join(folder, "tokenizer.json"),
    JSON.stringify({
      added_tokens: [],
      normalizer: null,
      post_processor: null,
      pre_tokenizer: metaspace,
      decoder: metaspace,
      model,
    }),
  );
  await writeFile(join(folder, "tokenizer_config.json"), "{}");
  try {
    const tokenizer = await loadTokenizer(folder);
    const ids = await tokenizer.encodeAsync("ab".repeat(300_000));
    expect(ids.length).toBe(600_001);
    expect(ids.slice(-4)).toEqual([2, 3, 2, 3]);
    await tokenizer.close();
  } finally {
    await rm(folder, { recursive: true });
  }
});
