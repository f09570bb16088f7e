import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { turnsDuring } from "../../test/fixtures/turns.js";
import { compileChatTemplate } from "../jinja/chatTemplate.js";
import { type Conversation, renderConversation } from "./conversation.js";
import { TokenizerError } from "./errors.js";
import { loadTokenizer, loadUntriedTokenizer, type Tokenizer } from "./tokenizer.js";

const REFERENCE = new URL("../../test/reference/tokenizers/", import.meta.url).pathname;

interface TextCase {
  text: string;
  ids: number[];
  ids_without_special: number[];
  decoded: string;
  decoded_with_special: string;
}

interface DecodeCase {
  ids: number[];
  decoded: string;
  decoded_with_special: string;
}

async function readJson<T>(name: string, file: string): Promise<T> {
  return JSON.parse(await readFile(join(REFERENCE, name, file), "utf8")) as T;
}

function streamed(tokenizer: Tokenizer, ids: number[], skipSpecialTokens: boolean): string[] {
  const decoder = tokenizer.stream({ skipSpecialTokens });
  return [...ids.map((id) => decoder.push(id)), decoder.flush()];
}

describe.each(["gpt2", "qwen", "llama3", "llama2"])("tokenizer %s", (name) => {
  let tokenizer: Tokenizer;
  let texts: TextCase[];
  let random: { texts: { text: string; ids: number[] }[]; ids: DecodeCase[] };

  beforeAll(async () => {
    tokenizer = await loadTokenizer(join(REFERENCE, name));
    texts = await readJson(name, "cases.json");
    random = await readJson(name, "random_cases.json");
  });

  it("gives the ids of Hugging Face's library", () => {
    expect(texts.length).toBeGreaterThan(60);
    for (const { text, ids, ids_without_special } of texts) {
      expect(tokenizer.encode(text, { addSpecialTokens: true }), JSON.stringify(text)).toEqual(ids);
      expect(tokenizer.encode(text), JSON.stringify(text)).toEqual(ids_without_special);
    }
    for (const { text, ids } of random.texts) expect(tokenizer.encode(text), JSON.stringify(text)).toEqual(ids);
  });

  it("tells special tokens from the same texts by a sign", () => {
    const sign = "\ud800";
    const special = [...tokenizer.specialIds].at(-1)!;
    const text = tokenizer.tokenText(special);
    const ids = [...tokenizer.encode("é"), special, ...tokenizer.encode("a😀").slice(0, -1), special];
    const shown = (specialTokenSign: string) => tokenizer.decode(ids, { skipSpecialTokens: false, specialTokenSign });
    const [before, between, after] = shown(sign).split(sign + text);
    expect(before).toBe("é");
    // Of some vocabularies the last character is one token.
    expect(between).toMatch(/^ ?a\ufffd*$/);
    expect(after).toBe("");
    expect(shown("").split(text)).toHaveLength(3);
    expect(tokenizer.decode(ids, { specialTokenSign: sign })).not.toContain(sign);
  });

  it("gives the texts of Hugging Face's library, also for ids that no text has", () => {
    for (const { ids, decoded, decoded_with_special } of [...texts, ...random.ids]) {
      expect(tokenizer.decode(ids), String(ids)).toBe(decoded);
      expect(tokenizer.decode(ids, { skipSpecialTokens: false }), String(ids)).toBe(decoded_with_special);
    }
  });

  it("streams the same text, never half a character", () => {
    for (const { ids, decoded, decoded_with_special } of texts) {
      const pieces = streamed(tokenizer, ids, true);
      expect(pieces.join("")).toBe(decoded);
      for (const piece of pieces) expect(Buffer.from(piece).toString()).toBe(piece);
      if (!decoded.includes("\ufffd")) for (const piece of pieces) expect(piece).not.toContain("\ufffd");
      expect(streamed(tokenizer, ids, false).join("")).toBe(decoded_with_special);
    }
    for (const { ids, decoded } of random.ids) expect(streamed(tokenizer, ids, true).join("")).toBe(decoded);
  });

  it("gives each token's own bytes, which join to the text", () => {
    for (const { text, ids_without_special } of texts) {
      const bytes = Buffer.concat(ids_without_special.map((id) => tokenizer.tokenBytes(id))).toString("utf8");
      const expected = name === "llama2" ? bytes.replace(/^ /, "") : bytes;
      if (!text.includes("<") && text !== "") expect(expected).toBe(tokenizer.decode(ids_without_special));
    }
    for (const id of tokenizer.specialIds) {
      expect(new TextDecoder().decode(tokenizer.tokenBytes(id))).toBe(tokenizer.tokenText(id));
      expect(tokenizer.tokenToId(tokenizer.tokenText(id))).toBe(id);
    }
    expect(tokenizer.tokenBytes(tokenizer.vocabSize).length).toBe(0);
  });

  it("knows its special tokens", async () => {
    const config = await readJson<Record<string, unknown>>(name, "tokenizer_config.json");
    expect(tokenizer.tokenText(tokenizer.eosId!)).toBe(config.eos_token);
    expect(tokenizer.specialTokens.eos_token).toBe(config.eos_token);
    expect(tokenizer.size).toBe(tokenizer.vocabSize);
    expect(tokenizer.chatTemplate).toBeNull();
  });
});

describe("a folder", () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "anneal-tokenizer-"));
  });

  afterAll(() => rm(folder, { recursive: true }));

  /** The qwen folder with tokenizer.json or tokenizer_config.json changed. */
  async function variant(change: (tokenizer: Record<string, unknown>, config: Record<string, unknown>) => void) {
    const tokenizer = await readJson<Record<string, unknown>>("qwen", "tokenizer.json");
    const config = await readJson<Record<string, unknown>>("qwen", "tokenizer_config.json");
    change(tokenizer, config);
    const path = await mkdtemp(join(folder, "variant-"));
    await writeFile(join(path, "tokenizer.json"), JSON.stringify(tokenizer));
    await writeFile(join(path, "tokenizer_config.json"), JSON.stringify(config));
    return path;
  }

  const refused = async (path: string, message: RegExp) => {
    const attempt = loadTokenizer(path);
    await expect(attempt).rejects.toBeInstanceOf(TokenizerError);
    await expect(attempt).rejects.toThrow(message);
  };

  it("without a tokenizer, or with a broken one, is refused naming the file", async () => {
    await refused(folder, /tokenizer\.json: the file is missing/);
    const broken = await variant(() => {});
    await writeFile(join(broken, "tokenizer.json"), "{");
    await refused(broken, /tokenizer\.json: is not JSON/);
    await writeFile(join(broken, "tokenizer.json"), `{"normalizer":${"[".repeat(1e5)}${"]".repeat(1e5)}}`);
    await refused(broken, /tokenizer\.json: is nested more than 900 deep/);
    await refused(await variant((tokenizer) => Object.assign(tokenizer, { model: 3 })), /"model" must be an object/);
    const badIds = await variant((tokenizer) => Object.assign(tokenizer, { model: { vocab: { a: -1 }, merges: [] } }));
    await refused(badIds, /the id of token "a"/);
    await refused(await variant((tokenizer) => Object.assign(tokenizer, { added_tokens: [{ id: 1 }] })), /entry 0/);
  });

  it("with merges that are none is refused, naming the entry", async () => {
    const merges = (...list: unknown[]) =>
      variant((tokenizer) => {
        tokenizer.model = { type: "BPE", vocab: { a: 0, b: 1, ab: 2, c: 3 }, merges: list };
        tokenizer.added_tokens = [];
      });
    await refused(await merges("a b", "ab"), /tokenizer\.json: "model\.merges" entry 1 must be a text "a b"/);
    await refused(await merges("a b", "a b c"), /entry 1 must be a text/);
    await refused(await merges("a b", 7), /entry 1 must be a text/);
    await refused(await merges("a b", ["a", "b"]), /entry 1 must be a text/);
    await refused(await merges(["a", "b"], "a b"), /entry 1 must be a pair/);
    await refused(await merges(["a", "b"], ["a"]), /entry 1 must be a pair/);
    await refused(await merges(["a", "b"], ["a", null]), /entry 1 must be a pair/);
    await refused(await merges(null), /entry 0 must be a pair/);
    await refused(await merges("a b", "a x"), /entry 1 needs the token "x", which "model\.vocab" lacks/);
    await refused(await merges(["a", "b"], ["b", "c"]), /entry 1 needs the token "bc"/);
    await refused(await merges("a toString"), /entry 0 needs the token "toString"/);
    expect((await loadTokenizer(await merges("#version: 0.2", "a b"))).encode("ab")).toEqual([2]);
    expect((await loadTokenizer(await merges())).encode("ab")).toEqual([0, 1]);
  });

  it("with one id for two tokens is refused, naming them", async () => {
    const vocab = await variant((tokenizer) => {
      tokenizer.model = { type: "BPE", vocab: { a: 0, b: 1, c: 1 }, merges: [] };
    });
    await refused(vocab, /tokenizer\.json: token "c" in "model\.vocab" has the id 1, which is that of "b"/);
    const added = (...tokens: object[]) => variant((tokenizer) => Object.assign(tokenizer, { added_tokens: tokens }));
    await refused(await added({ id: 5, content: "<x>" }), /added token "<x>" has the id 5, which is that of/);
    const twice = await added({ id: 950, content: "<x>" }, { id: 950, content: "<y>" });
    await refused(twice, /added token "<y>" has the id 950, which is that of "<x>"/);
  });

  it("that makes texts explode is refused, naming the step", async () => {
    const twice = { type: "Replace", pattern: { String: "a" }, content: "aa" };
    const normalizer = { type: "Sequence", normalizers: Array.from({ length: 30 }, () => twice) };
    const doubling = await variant((tokenizer) => Object.assign(tokenizer, { normalizer }));
    await refused(doubling, /tokenizer\.json: "normalizer\.normalizers\.4" makes texts more than 16 times as long/);
    const anywhere = { type: "Replace", pattern: { Regex: "" }, content: "x".repeat(1_000_000) };
    const filling = await variant((tokenizer) => Object.assign(tokenizer, { normalizer: anywhere }));
    await refused(filling, /"normalizer" makes texts more than 16 times/);
    const decoder = { type: "Sequence", decoders: [{ ...twice, content: "a".repeat(99) }, { type: "Fuse" }] };
    const long = await variant((tokenizer) => Object.assign(tokenizer, { decoder }));
    await refused(long, /"decoder\.decoders\.0" makes texts/);
  });

  it("with a regular expression is tried first, and refused by its field when it takes too long", async () => {
    const split = (Regex: string) =>
      variant((tokenizer) => {
        const pretokenizers = [{ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false }];
        tokenizer.pre_tokenizer = { type: "Sequence", pretokenizers };
      });
    const bomb = await split("(?:0+)+x|[\\s\\S]");
    const before = performance.eventLoopUtilization();
    await refused(bomb, /"pre_tokenizer\.pretokenizers\.0\.pattern\.Regex": a regular expression takes more than 10 s/);
    expect(performance.eventLoopUtilization(before).utilization).toBeLessThan(0.5);
    await refused(await split("("), /tokenizer\.json/);
    expect((await loadTokenizer(await split("\\p{L}+|[^\\p{L}]"))).encode("a b").length).toBeGreaterThan(0);
  });

  it("in a layout that would be encoded wrongly is refused by name", async () => {
    const split = (change: object) =>
      variant((tokenizer) => {
        tokenizer.pre_tokenizer = { type: "Split", pattern: { Regex: "\\s" }, behavior: "Isolated", ...change };
      });
    await refused(await split({ behavior: "MergedWithPrevious" }), /regex split with behavior MergedWithPrevious/);
    await refused(await split({ invert: true }), /behavior Isolated, inverted/);
    const steps = (...pretokenizers: object[]) =>
      variant((tokenizer) => Object.assign(tokenizer, { pre_tokenizer: { type: "Sequence", pretokenizers } }));
    const metaspace = { type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: true };
    await refused(
      await steps({ type: "WhitespaceSplit" }, metaspace),
      /Metaspace with the prepend_scheme "first" behind/,
    );
    const merged = { type: "Punctuation", behavior: "MergedWithNext" };
    await refused(await steps(merged), /punctuation with behavior MergedWithNext/);
    const whitespace = await variant((tokenizer) =>
      Object.assign(tokenizer, { pre_tokenizer: { type: "Whitespace" } }),
    );
    await refused(whitespace, /a Whitespace split/);
    const word = { id: 901, content: "w", single_word: true };
    await refused(await variant((tokenizer) => Object.assign(tokenizer, { added_tokens: [word] })), /"single_word"/);
    const prefixed = await variant((tokenizer) => {
      tokenizer.model = { ...(tokenizer.model as object), continuing_subword_prefix: "##" };
    });
    await refused(prefixed, /"model\.continuing_subword_prefix" with BPE/);
    const pieces = await variant((tokenizer) => Object.assign(tokenizer, { decoder: { type: "WordPiece" } }));
    await refused(pieces, /decoder "WordPiece"/);
    const model = { type: "WordLevel", vocab: { a: 0 } };
    await refused(await variant((tokenizer) => Object.assign(tokenizer, { model })), /model type "WordLevel"/);
  });

  it("takes a split that its normalizer makes impossible", async () => {
    const path = await variant((tokenizer) => {
      tokenizer.normalizer = { type: "Replace", pattern: { String: " " }, content: "▁" };
      const split = { type: "Split", pattern: { String: " " }, behavior: "MergedWithPrevious", invert: false };
      tokenizer.pre_tokenizer = split;
    });
    expect((await loadTokenizer(path)).vocabSize).toBe(907);
  });

  it("has its chat template in the configuration or in a file of its own", async () => {
    const list = [
      { name: "default", template: "one" },
      { name: "tool_use", template: "two" },
    ];
    const path = await variant((_, config) => Object.assign(config, { chat_template: list }));
    const tokenizer = await loadTokenizer(path);
    expect(tokenizer.chatTemplate).toBe("one");
    expect(tokenizer.chatTemplates.get("tool_use")).toMatchObject({ text: "two" });
    await writeFile(join(path, "chat_template.json"), JSON.stringify({ chat_template: "three" }));
    expect((await loadTokenizer(path)).chatTemplate).toBe("three");
    expect((await loadTokenizer(path)).chatTemplates.has("tool_use")).toBe(true);
    await mkdir(join(path, "additional_chat_templates"));
    await writeFile(join(path, "additional_chat_templates", "rag.jinja"), "five");
    const texts = async () => [...(await loadTokenizer(path)).chatTemplates].map(([name, { text }]) => [name, text]);
    expect(await texts()).toEqual([
      ["default", "three"],
      ["rag", "five"],
    ]);
    await writeFile(join(path, "chat_template.jinja"), "four");
    expect(await texts()).toEqual([
      ["default", "four"],
      ["rag", "five"],
    ]);
  });

  it("may keep tokens in tokenizer_config.json and special_tokens_map.json", async () => {
    const path = await variant((_, config) => {
      config.added_tokens_decoder = { 910: { content: "<extra>", special: true }, 900: { content: "<|endoftext|>" } };
    });
    await writeFile(join(path, "special_tokens_map.json"), JSON.stringify({ bos_token: { content: "<extra>" } }));
    const tokenizer = await loadTokenizer(path);
    expect(tokenizer.encode("a<extra>")).toEqual([...tokenizer.encode("a"), 910]);
    expect([tokenizer.bosId, tokenizer.vocabSize, tokenizer.size]).toEqual([910, 911, 908]);
    expect(tokenizer.decode([910])).toBe("");
    expect(tokenizer.decode([909, 5000, -1, 1.5])).toBe("");
  });

  it("has its added tokens as tokenizer_config.json says, and special where one of the files says or names them so", async () => {
    const path = await variant((tokenizer, config) => {
      tokenizer.added_tokens = [
        { id: 910, content: "<a>", special: false, lstrip: false, normalized: false },
        { id: 911, content: "<b>", special: true, lstrip: false, normalized: false },
      ];
      config.added_tokens_decoder = {
        910: { content: "<a>", special: true, lstrip: true, normalized: false },
        911: { content: "<b>", special: false, lstrip: false, normalized: false },
      };
    });
    const tokenizer = await loadTokenizer(path);
    const named = await variant((_, config) => Object.assign(config, { pad_token: "</tool_call>" }));
    expect((await loadTokenizer(named)).decode([904])).toBe("");
    expect(tokenizer.encode("x <a> <b>")).toEqual([...tokenizer.encode("x"), 910, ...tokenizer.encode(" "), 911]);
    expect(tokenizer.decode([910, 911])).toBe("");
  });

  it("has its named tokens in special_tokens_map.json, unless tokenizer_config.json has added_tokens_decoder", async () => {
    const named = async (config: object) => {
      const path = await variant((_, original) => Object.assign(original, { eos_token: "<|endoftext|>" }, config));
      await writeFile(join(path, "special_tokens_map.json"), JSON.stringify({ eos_token: "<|im_end|>" }));
      return (await loadTokenizer(path)).specialTokens.eos_token;
    };
    expect(await named({})).toBe("<|im_end|>");
    expect(await named({ added_tokens_decoder: {} })).toBe("<|endoftext|>");
  });

  it("that asks for it has the spaces before punctuation taken out, also in a stream", async () => {
    const usual = { clean_up_tokenization_spaces: true };
    const kept = await loadTokenizer(await variant((_, config) => Object.assign(config, usual)));
    expect(kept.decode(kept.encode("a . b"))).toBe("a . b");
    const insisting = { ...usual, clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output: true };
    const tokenizer = await loadTokenizer(await variant((_, config) => Object.assign(config, insisting)));
    const cleaned: [string, string][] = [
      ["a . b ? c ! d , e", "a. b? c! d, e"],
      ["it ' s he 's we 've do n't they 're I 'm", "it's he's we've don't they're I'm"],
      ["x ' ' ' y '  ", "x'''y' "],
      ["ends with space ", "ends with space "],
      ["ends ' ", "ends'"],
    ];
    for (const [text, expected] of cleaned) {
      const ids = tokenizer.encode(text);
      expect(tokenizer.decode(ids)).toBe(expected);
      expect(streamed(tokenizer, ids, true).join("")).toBe(expected);
    }
  });
});

describe("limits", () => {
  it("keep the work per streamed id constant", async () => {
    const tokenizer = await loadTokenizer(join(REFERENCE, "llama2"));
    const id = tokenizer.tokenToId("<0x80>")!;
    const started = process.cpuUsage();
    const pieces = streamed(tokenizer, new Array<number>(200_000).fill(id), true);
    expect(pieces.join("").length).toBe(200_000);
    expect(process.cpuUsage(started).user).toBeLessThan(2_000_000);
  });
});

describe("a long text", () => {
  const long = "Three small boats, 27 of them red — über alles ein Fluß. 漢字 <|im_end|>\n".repeat(400);
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    tokenizer = await loadTokenizer(join(REFERENCE, "qwen"));
  });
  afterAll(() => tokenizer.close());

  it("becomes the same ids in its thread, all or the last of them", async () => {
    const ids = tokenizer.encode(long);
    expect(await tokenizer.encodeAsync(long)).toEqual(ids);
    const both = await Promise.all([
      tokenizer.encodeAsync(long, { keep: { side: "last", count: 7 } }),
      tokenizer.encodeAsync(`${long}x`),
    ]);
    expect(both).toEqual([ids.slice(-7), tokenizer.encode(`${long}x`)]);
    const first = { keep: { side: "first", count: 7 } } as const;
    expect(await tokenizer.encodeAsync(long, first)).toEqual(ids.slice(0, 7));
    expect(await tokenizer.encodeAsync("short words", first)).toEqual(tokenizer.encode("short words").slice(0, 7));
    const last = { keep: { side: "last", count: 1 } } as const;
    expect(await tokenizer.encodeAsync("short", last)).toEqual(tokenizer.encode("short").slice(-1));
  });

  it("leaves the event loop to others", async () => {
    expect(await turnsDuring(() => tokenizer.encodeAsync(long.repeat(20)))).toBeGreaterThan(20);
  });

  it("that nobody waits for any more is left out", async () => {
    const leaving = new AbortController();
    const texts = [0, 1, 2].map((i) => tokenizer.encodeAsync(long.repeat(10 + i), { signal: leaving.signal }));
    const kept = tokenizer.encodeAsync(long);
    leaving.abort(new Error("left"));
    for (const text of texts) await expect(text).rejects.toThrow("left");
    expect(await kept).toEqual(tokenizer.encode(long));
    await expect(tokenizer.encodeAsync(long, { signal: leaving.signal })).rejects.toThrow("left");
  });

  it("is refused once the tokenizer is closed, also on its way", async () => {
    const closing = await loadTokenizer(join(REFERENCE, "qwen"));
    const texts = [closing.encodeAsync(long.repeat(10)), closing.encodeAsync(long)];
    const closed = closing.close();
    for (const text of texts) await expect(text).rejects.toMatchObject({ code: "closed" });
    await closed;
    await expect(closing.encodeAsync(long)).rejects.toMatchObject({ code: "closed" });
    expect(await closing.encodeAsync("short")).toEqual(closing.encode("short"));
    await closing.close();
  });

  it("is refused when the folder has another tokenizer by now, for as long as it has", async () => {
    const folder = await mkdtemp(join(tmpdir(), "anneal-tokenizer-"));
    await cp(join(REFERENCE, "qwen"), folder, { recursive: true });
    const stale = await loadTokenizer(folder);
    await cp(join(REFERENCE, "llama2"), folder, { recursive: true });
    const attempt = stale.encodeAsync(long);
    await expect(attempt).rejects.toThrow(/has changed since it was loaded/);
    await expect(attempt).rejects.toMatchObject({ code: "encoding_failed", status: 503 });
    await cp(join(REFERENCE, "qwen"), folder, { recursive: true });
    expect(await stale.encodeAsync(long)).toEqual(stale.encode(long));
    await stale.close();
    await rm(folder, { recursive: true });
  });
});

describe("a conversation rendered in a thread of its own", () => {
  const messages = [{ role: "user", content: "Hi" }];
  const folder = join(REFERENCE, "qwen");

  it("becomes the same text, and fails with the same errors", async () => {
    const tokenizer = await loadTokenizer(folder);
    const parameters = { const: 12345678901234567890n, default: new Number(1) };
    const tools = [{ type: "function", function: { name: "f", parameters } }];
    const conversation = { messages, tools, specialTokens: { eos_token: "<end>" }, now: new Date(0) };
    const source = "{{ messages[0].content }}{{ tools | tojson }}{{ eos_token }}{{ strftime_now('%Y') }}";
    const here = renderConversation(compileChatTemplate(source), conversation);
    expect(here).toContain('{"const": 12345678901234567890, "default": 1.0}');
    expect(await tokenizer.renderAsync({ source }, conversation)).toBe(here);
    const failing = async (template: string, given: Conversation) => {
      const error = await tokenizer.renderAsync({ source: template }, given).catch((reason: unknown) => reason);
      expect(() => renderConversation(compileChatTemplate(template), given)).toThrow(error as Error);
      return error;
    };
    expect(await failing("{{ raise_exception('no') }}", { messages })).toMatchObject({ kind: "raised", reason: "no" });
    expect(await failing("{% if %}", { messages })).toMatchObject({ kind: "syntax", line: 1 });
    expect(await failing("{{ range(9) | batch(10 ** 9, 1) | list }}", { messages })).toMatchObject({ kind: "budget" });
    expect(await failing("x", { messages: [] })).toMatchObject({ location: "messages" });
    const notJson = { messages, kwargs: { f: () => 1 } };
    await expect(tokenizer.renderAsync({ source: "x" }, notJson)).rejects.toMatchObject({
      location: "chat_template_kwargs",
    });
    await tokenizer.close();
    await expect(tokenizer.renderAsync({ source: "x" }, { messages })).rejects.toMatchObject({ code: "closed" });
  });

  it("is long, or its template is not the model's own", async () => {
    const tokenizer = await loadTokenizer(folder);
    const template = compileChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}");
    const many = { messages: Array.from({ length: 1000 }, (_, i) => ({ role: "user", content: `${i},` })) };
    const long = { messages: [{ role: "user", content: "x".repeat(100_000) }] };
    for (const given of [many, long, { messages }])
      expect(await tokenizer.renderAsync(template, given)).toBe(renderConversation(template, given));
    await tokenizer.close();
    expect(await tokenizer.renderAsync(template, { messages })).toBe("Hi");
    for (const given of [many, long])
      await expect(tokenizer.renderAsync(template, given)).rejects.toMatchObject({ code: "closed" });
  });

  it("leaves the event loop to others", async () => {
    const tokenizer = await loadTokenizer(folder);
    await tokenizer.renderAsync({ source: "x" }, { messages });
    const busy = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    const before = performance.eventLoopUtilization();
    await expect(tokenizer.renderAsync({ source: busy }, { messages })).rejects.toMatchObject({ kind: "budget" });
    expect(performance.eventLoopUtilization(before).utilization).toBeLessThan(0.3);
    await tokenizer.close();
  });
});

// Splits by tokenizers 0.22 (Rust).
it.each([
  [true, ["a", "Ġ", "Â½", "Ġ", "âħ·", "Ù£", "2", "Ġx", "Â²", "1", "2"]],
  [false, ["a", "Ġ", "Â½", "Ġ", "âħ·Ù£2", "Ġx", "Â²12"]],
])("splits all numeric characters off, individually: %s", async (individual_digits, pieces) => {
  const path = await mkdtemp(join(tmpdir(), "digits-"));
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const pretokenizers = [{ type: "Digits", individual_digits }, byteLevel];
  // Each piece is a token: one that is split otherwise has others.
  const vocab = Object.fromEntries([...pieces, "ĠÂ½", "Ġâħ·", "xÂ²"].map((piece, id) => [piece, id]));
  const model = { type: "BPE", unk_token: null, ignore_merges: true, vocab, merges: [] };
  const others = { added_tokens: [], normalizer: null, post_processor: null, decoder: byteLevel };
  const tokenizer = { ...others, pre_tokenizer: { type: "Sequence", pretokenizers }, model };
  await writeFile(join(path, "tokenizer.json"), JSON.stringify(tokenizer));
  const loaded = await loadUntriedTokenizer(path);
  expect(loaded.encode("a ½ ⅷ٣2 x²12").map((id) => loaded.piece(id))).toEqual(pieces);
  await rm(path, { recursive: true });
});

it("shows a token as the vocabulary writes it", async () => {
  const tokenizer = await loadTokenizer(join(REFERENCE, "qwen"));
  expect(tokenizer.encode(" the\n").map((id) => tokenizer.piece(id))).toEqual(["Ġthe", "Ċ"]);
  expect(tokenizer.piece(tokenizer.eosId!)).toBe(tokenizer.specialTokens.eos_token);
  expect(tokenizer.piece(10 ** 6)).toBe("");
});
