// Structured outputs through the addon: what a matcher permits, what a slot then draws, and that no call can harm the process.
// The engine itself is checked against a second implementation by native/grammar/grammar_test.cpp.

import { readFile } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { alt, chars, encodeGrammar, type Grammar, not, repeat, seq, text } from "../../src/grammar/ir.js";
import {
  compileGrammar,
  type DeviceModel,
  type GrammarMatcher,
  type GrammarVocabulary,
  prepareVocabulary,
  type SlotParams,
} from "../../src/runtime/runtime.js";
import { failure } from "./nativeFailure.js";
import { loadCase, plainSlot } from "./referenceModel.js";
import { sequenceOf } from "./sequenceOf.js";

/** Every byte, some longer tokens, one special token, one that ends the output, and tokens without bytes up to `size`. */
const LONGER = ["true", '","', '":', "ab", "bc", "é", "x]"];
const SPECIAL = 256 + LONGER.length;
const END = SPECIAL + 1;

async function vocabularyOf(size: number): Promise<GrammarVocabulary> {
  const utf8 = new TextEncoder();
  const tokens = [
    ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
    ...LONGER.map((t) => utf8.encode(t)),
  ];
  tokens.push(utf8.encode("<tool>"), utf8.encode("<end>"));
  while (tokens.length < size) tokens.push(new Uint8Array());
  const offsets = new Int32Array(tokens.length + 1);
  tokens.forEach((token, i) => {
    offsets[i + 1] = offsets[i]! + token.length;
  });
  return prepareVocabulary({
    tokens: Buffer.concat(tokens.slice(0, size)) as Uint8Array,
    offsets: offsets.slice(0, size + 1),
    special: Int32Array.of(SPECIAL),
    end: Int32Array.of(END),
  });
}

const grammar = (...rules: Grammar["rules"]): Int32Array => encodeGrammar({ rules, start: 0 });

/** Lists of "true" or letters, nested. */
const LISTS = grammar(
  alt(text("true"), repeat(chars([0x61, 0x7a]), 1, 3), seq(text("["), { kind: "rule", rule: 1 }, text("]"))),
  seq({ kind: "rule", rule: 0 }, repeat(seq(text(","), { kind: "rule", rule: 0 }), 0)),
);

function permitted(matcher: GrammarMatcher): number[] {
  const ids: number[] = [];
  matcher.mask().forEach((word, at) => {
    for (let bit = 0; bit < 32; bit++) if ((word >>> bit) & 1) ids.push(at * 32 + bit);
  });
  return ids;
}

const byte = (character: string) => character.charCodeAt(0);
const longer = (token: string) => 256 + LONGER.indexOf(token);

it("encodes an expression that comes again by its number", async () => {
  const letters = repeat(chars([0x61, 0x63]), 2, 2);
  const program = grammar(seq(letters, text("-"), letters));
  expect([...program]).toEqual([1, 0, 1, 5, 3, 7, 2, 2, 2, 1, 0x61, 0x63, 3, 1, 0x2d, 11, 1]);
  const compiled = await compileGrammar(await vocabularyOf(300), program);
  const takes = (bytes: string) => compiled.matcher().acceptBytes(Buffer.from(bytes));
  expect(["ab-ca", "ab-cd", "a-b"].map(takes)).toEqual([true, false, false]);
});

describe("a matcher", () => {
  let vocabulary: GrammarVocabulary;
  beforeAll(async () => {
    vocabulary = await vocabularyOf(300);
  });

  it("permits the tokens after which the output can be completed", async () => {
    const matcher = (await compileGrammar(vocabulary, grammar(seq(text("ab"), alt(text("c"), text("é")))))).matcher();
    expect(vocabulary.size).toBe(300);
    expect(permitted(matcher)).toEqual([byte("a"), longer("ab")]);
    expect(matcher.forced()).toBe(-1);
    expect(matcher.accept(byte("b"))).toBe(false);
    expect(matcher.accept(byte("a"))).toBe(true);
    expect(permitted(matcher)).toEqual([byte("b"), longer("bc")]);
    const clone = matcher.clone();
    expect(matcher.accept(longer("bc"))).toBe(true);
    expect([matcher.complete, matcher.finished, matcher.steps]).toEqual([true, false, 2]);
    expect(permitted(matcher)).toEqual([END]);
    expect(matcher.forced()).toBe(END);
    expect(matcher.accept(END)).toBe(true);
    expect([matcher.finished, permitted(matcher), matcher.forced()]).toEqual([true, [], -1]);
    // The clone went its own way.
    expect(clone.acceptBytes(Uint8Array.of(byte("b"), 0xc3))).toBe(true);
    expect(permitted(clone)).toEqual([0xa9]);
    matcher.rewind(2);
    expect(permitted(matcher)).toEqual([byte("b"), longer("bc")]);
  });

  it("permits special tokens only where the grammar names them", async () => {
    const program = grammar(seq(text("<tool>"), { kind: "token", id: SPECIAL }, text("x")));
    const matcher = (await compileGrammar(vocabulary, program)).matcher();
    expect(permitted(matcher)).toEqual([byte("<")]);
    expect(matcher.acceptBytes(new TextEncoder().encode("<tool>"))).toBe(true);
    expect(permitted(matcher)).toEqual([SPECIAL]);
    expect(matcher.accept(SPECIAL)).toBe(true);
    expect(permitted(matcher)).toEqual([byte("x")]);
  });

  it("follows recursion", async () => {
    const matcher = (await compileGrammar(vocabulary, LISTS)).matcher();
    expect(matcher.acceptBytes(new TextEncoder().encode("[[true,ab],["))).toBe(true);
    expect(matcher.accept(byte("x"))).toBe(true);
    expect(permitted(matcher)).toContain(byte("]"));
    expect(permitted(matcher)).not.toContain(END);
    expect(matcher.accept(byte("]"))).toBe(true);
    expect(matcher.accept(byte("]"))).toBe(true);
    expect(matcher.complete).toBe(true);
  });

  it.each<[string, string | null, Int32Array]>([
    ["grammar_empty", "rules[0]", grammar({ kind: "never" })],
    [
      "grammar_left_recursive",
      "rules[0]",
      grammar(
        seq(repeat(text("a"), 0), { kind: "rule", rule: 1 }, text("b")),
        alt({ kind: "rule", rule: 0 }, text("c")),
      ),
    ],
    [
      "grammar_too_complex",
      "budgets.states",
      grammar(not(seq(repeat(chars([97, 98]), 0), text("a"), repeat(chars([97, 98]), 30, 30)))),
    ],
    ["invalid_grammar", "program", Int32Array.of(1, 0, 1)],
    ["invalid_grammar", "program", Int32Array.of(1, 0, 1, 4, END)],
    ["invalid_grammar", "program", Int32Array.of(1, 0, 1, 9, 1, 8, 0)],
  ])("refuses with %s at %s", async (code, param, program) => {
    const error = await failure(() => compileGrammar(vocabulary, program, { states: 10_000 }));
    expect([error.code, error.param]).toEqual([code, param]);
  });

  it("keeps the budget of time", async () => {
    const program = grammar(not(seq(repeat(chars([97, 98]), 0), text("a"), repeat(chars([97, 98]), 40, 40))));
    const error = await failure(() =>
      compileGrammar(vocabulary, program, { milliseconds: 30, states: 1e8, bytes: 1e12 }),
    );
    expect([error.code, error.param]).toEqual(["grammar_too_complex", "budgets.milliseconds"]);
  });

  describe("compiling for many", () => {
    /** Hours of work. */
    const endless = grammar(not(seq(repeat(chars([97, 98]), 0), text("a"), repeat(chars([97, 98]), 40, 40))));
    const unbounded = { milliseconds: 600_000, states: 1e8, bytes: 1e12 };
    const reason = new Error("no longer needed");

    it("stops when it is aborted, whether it has begun or waits", async () => {
      const abort = new AbortController();
      const compiling = Array.from({ length: 40 }, () =>
        compileGrammar(vocabulary, endless, unbounded, { signal: abort.signal }).catch((error) => error),
      );
      await new Promise((resolve) => setTimeout(resolve, 50));
      abort.abort(reason);
      expect(new Set(await Promise.all(compiling))).toEqual(new Set([reason]));
      expect((await compileGrammar(vocabulary, LISTS)).matcher().accept(byte("["))).toBe(true);
      await expect(compileGrammar(vocabulary, LISTS, {}, { signal: abort.signal })).rejects.toBe(reason);
    });

    it("lets clients take turns, and leaves Node's own threads alone", async () => {
      const abort = new AbortController();
      let ended = 0;
      const compiling = Array.from({ length: 40 }, () =>
        compileGrammar(vocabulary, endless, unbounded, { client: "one", signal: abort.signal }).catch(() => ended++),
      );
      const other = await compileGrammar(vocabulary, LISTS, {}, { client: "other" });
      expect(other.matcher().accept(byte("["))).toBe(true);
      expect((await readFile(new URL(import.meta.url), "utf8")).length).toBeGreaterThan(0);
      expect(ended).toBe(0);
      abort.abort(reason);
      await Promise.all(compiling);
      expect(ended).toBe(40);
    });

    it("ends with its worker thread while others wait behind it", async () => {
      const source = `const { workerData, parentPort } = require("node:worker_threads");
        const addon = require(workerData.addon);
        addon.initialize((code, message) => new Error(code + message));
        (async () => {
          const v = await addon.grammarVocabulary(Uint8Array.from({ length: 256 }, (_, i) => i), Int32Array.from({ length: 257 }, (_, i) => i), new Int32Array(), new Int32Array());
          for (let i = 0; i < 20; i++) void addon.compileGrammar(v, workerData.program, workerData.budgets, "worker");
          parentPort.postMessage("compiling");
        })();`;
      const addon = new URL("../../native/build/Release/anneal.node", import.meta.url).pathname;
      const worker = new Worker(source, { eval: true, workerData: { addon, program: endless, budgets: unbounded } });
      await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
      await worker.terminate();
      expect((await compileGrammar(vocabulary, LISTS)).matcher().accept(byte("["))).toBe(true);
    });
  });

  it("believes nothing it is given", async () => {
    const compiled = await compileGrammar(vocabulary, LISTS);
    const matcher = compiled.matcher();
    const wrong: [string, () => unknown][] = [
      ["token", () => matcher.accept(300)],
      ["token", () => matcher.accept(-1)],
      ["token", () => matcher.accept(0.5)],
      ["bytes", () => matcher.acceptBytes("a" as never)],
      ["steps", () => matcher.rewind(1)],
      ["new", () => new (matcher.constructor as new () => unknown)()],
      ["vocabulary", () => compileGrammar({ size: 1 }, LISTS)],
      ["program", () => compileGrammar(vocabulary, [1, 2] as never)],
      ["budgets.states", () => compileGrammar(vocabulary, LISTS, { states: 0 })],
      [
        "vocabulary",
        () =>
          prepareVocabulary({
            tokens: Uint8Array.of(1),
            offsets: Int32Array.of(0, 2),
            special: new Int32Array(),
            end: new Int32Array(),
          }),
      ],
      [
        "vocabulary",
        () =>
          prepareVocabulary({
            tokens: Uint8Array.of(1),
            offsets: Int32Array.of(0, 1),
            special: Int32Array.of(1),
            end: new Int32Array(),
          }),
      ],
      [
        "end",
        () =>
          prepareVocabulary({
            tokens: Uint8Array.of(1),
            offsets: Int32Array.of(0, 1),
            special: new Int32Array(),
            end: [] as never,
          }),
      ],
    ];
    for (const [param, call] of wrong) {
      const error = await failure(call);
      expect([error.code, error.param]).toEqual(["invalid_argument", param]);
    }
    for (const into of [
      new Uint32Array(),
      new Uint32Array(matcher.mask().length + 1),
      new Int32Array(1),
      [] as never,
    ]) {
      const error = await failure(() => matcher.mask(into as never));
      expect([error.code, error.param]).toEqual(["invalid_argument", "into"]);
    }
    const words = new Uint32Array(matcher.mask().length).fill(7);
    expect(matcher.mask(words)).toBe(words);
    expect(words).toEqual(matcher.mask());
    expect(() => matcher.mask.call(compiled as never)).toThrow(TypeError);
    expect(permitted(matcher)).toContain(byte("["));
  });

  it("ends with its worker thread, in the middle of compiling too", async () => {
    const program = grammar(not(seq(repeat(chars([97, 98]), 0), text("a"), repeat(chars([97, 98]), 18, 18))));
    const worker = new Worker(
      `const { workerData, parentPort } = require("node:worker_threads");
       const { createRequire } = require("node:module");
       const addon = require(workerData.addon);
       addon.initialize((code, message) => new Error(code + message));
       (async () => {
         const v = await addon.grammarVocabulary(Uint8Array.from({ length: 256 }, (_, i) => i), Int32Array.from({ length: 257 }, (_, i) => i), new Int32Array(), new Int32Array());
         const g = await addon.compileGrammar(v, Int32Array.of(1, 0, 1, 3, 2, 97, 98), {}, "worker");
         const ok = g.matcher().accept(97);
         void addon.compileGrammar(v, workerData.program, {}, "worker");
         parentPort.postMessage(ok);
       })();`,
      {
        eval: true,
        workerData: { addon: new URL("../../native/build/Release/anneal.node", import.meta.url).pathname, program },
      },
    );
    const answer = await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
    expect(answer).toBe(true);
    await worker.terminate();
    expect((await compileGrammar(vocabulary, LISTS)).matcher().accept(byte("["))).toBe(true);
  });
});

describe("a slot with a grammar", () => {
  let model: DeviceModel;
  let vocabulary: GrammarVocabulary;
  beforeAll(async () => {
    model = await loadCase("qwen3", { kvPages: 8 });
    vocabulary = await vocabularyOf(model.config.vocab);
  });
  afterAll(() => model.close());

  /** Draws `count` tokens, each step queued before the one before it has ended. */
  async function draw(slot: number, count: number, from = 0, last?: number): Promise<number[]> {
    const steps = Array.from({ length: count }, (_, i) =>
      model.step([
        sequenceOf(
          i === 0 && from === 0
            ? { slot }
            : {
                slot,
                tokens: i === 0 ? Int32Array.of(last!) : null,
                position: 2 + from + i,
                outputIndex: from + i,
              },
        ),
      ]),
    );
    return (await Promise.all(steps)).map((output) => output.tokens[0]!);
  }

  it("draws only what follows the grammar, and nothing after the end", async () => {
    const compiled = await compileGrammar(vocabulary, LISTS);
    for (let seed = 0; seed < 5; seed++) {
      const slot = model.openSlot(plainSlot({ seed: BigInt(seed), grammar: compiled.matcher() }));
      const tokens = await draw(slot, 24);
      const follower = compiled.matcher();
      let ended = false;
      for (const token of tokens) {
        if (ended) expect(token).toBe(-1);
        else {
          expect(follower.accept(token)).toBe(true);
          ended = token === END;
        }
      }
      model.closeSlot(slot);
    }
  });

  it("has a matcher of its own", async () => {
    const compiled = await compileGrammar(
      vocabulary,
      grammar(repeat(alt(text("a"), text("b"), text("ab"), text("bc")), 12, 12)),
    );
    const matcher = compiled.matcher();
    const slot = model.openSlot(plainSlot({ seed: 3n, grammar: matcher }));
    const first = await draw(slot, 8);
    expect(matcher.steps).toBe(0);
    const rest = await draw(slot, 20, 8, first[7]!);
    const follower = compiled.matcher();
    for (const token of [...first, ...rest].slice(0, [...first, ...rest].indexOf(END) + 1))
      expect(follower.accept(token)).toBe(true);
    expect(follower.finished).toBe(true);
    model.closeSlot(slot);
  });

  it("goes on from the state of the matcher it was given", async () => {
    const matcher = (await compileGrammar(vocabulary, grammar(text("abc")))).matcher();
    matcher.acceptBytes(Uint8Array.of(byte("a")));
    const slot = model.openSlot(plainSlot({ grammar: matcher, temperature: 0 }));
    const tokens = await draw(slot, 3);
    expect([`${longer("bc")},${END},-1`, `${byte("b")},${byte("c")},${END}`]).toContain(tokens.join());
    model.closeSlot(slot);
  });

  it("begins thoughts only where the likeliest token of all would", async () => {
    const compiled = await compileGrammar(vocabulary, grammar(repeat(alt(text("a"), text("b")), 4, 4)));
    const first = async (thoughtIds: number[], seed = 0) => {
      const params = {
        grammar: compiled.matcher(),
        temperature: 5,
        seed: BigInt(seed),
        thoughtIds: Int32Array.from(thoughtIds),
      };
      const slot = model.openSlot(plainSlot(params));
      const [token] = await draw(slot, 1);
      model.closeSlot(slot);
      return token!;
    };
    const free = model.openSlot(plainSlot({ temperature: 0 }));
    const [likeliest] = await draw(free, 1);
    model.closeSlot(free);
    const seeds = Array.from({ length: 20 }, (_, seed) => seed);
    const drawn = async (ids: number[]) => new Set(await Promise.all(seeds.map((seed) => first(ids, seed))));
    const opens = byte("a");
    expect(likeliest).not.toBe(opens);
    expect(await drawn([])).toContain(opens);
    expect(await drawn([opens])).not.toContain(opens);
    expect(await drawn([opens, likeliest!])).toContain(opens);
    // Where an answer cannot begin otherwise, it begins so.
    expect(await first([...Array(256 + LONGER.length).keys()])).toBeGreaterThanOrEqual(0);
  });

  it("closes thoughts that are as long as they may be, and no sooner than a grammar permits", async () => {
    const [open, close] = [Int32Array.of(byte("(")), Int32Array.of(byte(")"), byte("!"))];
    const budget = { open, close, used: 0, tokens: 3 };
    const drawn = async (params: Partial<SlotParams>, count: number) => {
      const slot = model.openSlot(plainSlot({ temperature: 1.5, seed: 9n, ...params }));
      const tokens = await draw(slot, count);
      model.closeSlot(slot);
      return tokens;
    };
    const free = await drawn({}, 12);
    const closed = await drawn({ thinking: budget }, 12);
    expect(closed.slice(0, 5)).toEqual([...free.slice(0, 3), ...close]);
    // With logprobs the close is drawn from logits like any other token.
    expect(await drawn({ thinking: budget, topLogprobs: 0 }, 12)).toEqual(closed);
    expect((await drawn({ thinking: { ...budget, used: 2 } }, 3)).slice(1)).toEqual([...close]);
    expect((await drawn({ thinking: { ...budget, used: 7 } }, 2)).slice(0)).toEqual([...close]);
    // Thoughts that nothing opened are not closed; those that the output opens are, once.
    expect(await drawn({ thinking: { ...budget, used: -1 } }, 12)).toEqual(free);
    const opens = { ...budget, open: Int32Array.of(free[1]!), used: -1, tokens: 2 };
    const behind = free.indexOf(free[1]!) + 3;
    expect((await drawn({ thinking: opens }, 6)).slice(behind, behind + 2)).toEqual([...close]);
    expect(await drawn({ thinking: { ...budget, close: Int32Array.of(free[1]!) } }, 12)).toEqual(free);
    // Characters of two bytes may not be cut in two: after three bytes, the close waits for the fourth.
    const text = seq(repeat(chars([0x80, 0xff]), 2), { kind: "bytes", bytes: String.fromCharCode(...close) });
    const grammarOfIt = (await compileGrammar(vocabulary, grammar(text))).matcher();
    const bytes = await drawn({ thinking: budget, grammar: grammarOfIt }, 12);
    const at = bytes.findIndex((token, i) => token === close[0] && bytes[i + 1] === close[1]);
    expect([4, 6]).toContain(at);
  });

  it("reports the log-probabilities of the tokens it is asked for", async () => {
    const all = model.openSlot(plainSlot({ temperature: 0, topLogprobs: 384 }));
    const some = model.openSlot(plainSlot({ temperature: 0, topLogprobs: 0, logprobIds: Int32Array.of(7, 3, 9) }));
    const [whole, named] = [
      await model.step([sequenceOf({ slot: all })]),
      await model.step([sequenceOf({ slot: some })]),
    ];
    const drawn = whole.tokens[0]!;
    const others = [7, 3, 9].filter((id) => id !== drawn);
    expect([...named.top[0]!.ids]).toEqual([drawn, ...others]);
    const { ids, logprobs } = whole.top[0]!;
    expect([...named.top[0]!.logprobs]).toEqual([drawn, ...others].map((id) => logprobs[ids.indexOf(id)]));
    for (const slot of [all, some]) model.closeSlot(slot);
  });

  it("takes what is forced with the draw before it, and computes all of it in the next step", async () => {
    // A letter, digits that are tokens of their own only, and a letter again.
    const compiled = await compileGrammar(
      vocabulary,
      grammar(seq(chars([0x61, 0x7a]), text("0123456789"), chars([0x61, 0x7a]), text("01"))),
    );
    const one = model.openSlot(plainSlot({ seed: 5n, grammar: compiled.matcher() }));
    const expected = await draw(one, 15);
    expect(expected.slice(1, 11)).toEqual([..."0123456789"].map(byte));
    for (const maxForced of [1, 4, 12, 60]) {
      const slot = model.openSlot(plainSlot({ seed: 5n, grammar: compiled.matcher() }));
      const tokens: number[] = [];
      const blocks = Int32Array.of(0, 1);
      let output = await model.step([sequenceOf({ slot, maxForced, blocks })]);
      for (let steps = 1; tokens.at(-1) !== END; steps++) {
        expect(steps).toBeLessThan(16);
        const { forced } = output;
        const position = 3 + tokens.length;
        const outputIndex = tokens.length + 1;
        tokens.push(output.tokens[0]!, ...(forced[0] ?? []));
        expect(forced[0]?.length ?? 0).toBeLessThanOrEqual(maxForced);
        if (maxForced === 60 && steps === 1) expect(tokens).toEqual(expected.slice(0, 11));
        output = await model.step([sequenceOf({ slot, tokens: null, position, outputIndex, maxForced, blocks })]);
      }
      expect(tokens).toEqual(expected);
      expect(output.tokens[0]).toBe(-1);
      model.closeSlot(slot);
    }
    model.closeSlot(one);
  });

  it("draws the same behind guesses, with what is forced between them", async () => {
    // Names that follow one another, with what stands around them.
    const record = seq(
      text("{name:"),
      repeat(chars([0x61, 0x64]), 2, 4),
      text(",on:"),
      alt(text("true"), text("ab")),
      text("}"),
    );
    const compiled = await compileGrammar(vocabulary, grammar(repeat(seq(record, text(";")), 3, 3)));
    const settings = { seed: 8n, temperature: 0.9, grammar: compiled.matcher() };
    const one = model.openSlot(plainSlot(settings));
    const expected = await draw(one, 60);
    model.closeSlot(one);
    expect(expected).toContain(END);
    const reply = expected.slice(0, expected.indexOf(END) + 1);
    // But for one token in eleven; the last ones go on to say something else.
    const altered = reply.map((token, i) => (i % 11 === 6 ? byte("b") : token)).concat(byte("x"), byte("y"));
    const lookup = Int32Array.from([...altered, 5, 6, 7, 5, 6, 7]);
    let kept = 0;
    for (const maxForced of [0, 3, 30]) {
      for (const maxDrafts of [1, 4, 15]) {
        const slot = model.openSlot(plainSlot(settings));
        const tokens: number[] = [];
        const blocks = Int32Array.of(0, 1, 2, 3);
        let output = await model.step([sequenceOf({ slot, maxForced, blocks })]);
        for (let steps = 1; tokens.at(-1) !== END; steps++) {
          expect(steps).toBeLessThan(reply.length + 1);
          const before = output.drafts?.[0]?.kept ?? [];
          kept += before.length;
          expect(before.length).toBeLessThanOrEqual(maxDrafts);
          // What was kept is behind the place that the next step is told, until this one is known.
          const position = 3 + tokens.length;
          const outputIndex = tokens.length + 1;
          tokens.push(...before.map(({ token }) => token), output.tokens[0]!, ...(output.forced[0] ?? []));
          output = await model.step([
            sequenceOf({
              slot,
              tokens: null,
              position,
              outputIndex,
              maxForced,
              maxDrafts,
              lookup: steps === 1 ? lookup : null,
              blocks,
            }),
          ]);
        }
        expect(tokens).toEqual(reply);
        expect(output.tokens[0]).toBe(-1);
        model.closeSlot(slot);
      }
    }
    // How many are guessed depends on what a row more has taken.
    expect(kept).toBeGreaterThan(0);
  });

  it("needs room for what may be forced", async () => {
    const compiled = await compileGrammar(vocabulary, grammar(text("0123456789")));
    const slot = model.openSlot(plainSlot({ grammar: compiled.matcher() }));
    const first = model.step([sequenceOf({ slot, maxForced: 10 })]);
    const error = await failure(() => model.step([sequenceOf({ slot, tokens: null, position: 54, outputIndex: 1 })]));
    expect([error.code, error.param]).toEqual(["invalid_argument", "sequences[0].blocks"]);
    expect([...(await first).tokens, ...(await first).forced[0]!]).toEqual([..."0123456789"].map(byte).concat(END));
    model.closeSlot(slot);
  });

  it("does not force what other settings forbid", async () => {
    const compiled = await compileGrammar(vocabulary, grammar(text("012")));
    const forbidding = [
      { badWords: [Int32Array.of(byte("0"), byte("1"))] },
      { allowedIds: Int32Array.of(byte("0"), byte("2")) },
      { minTokens: 9, endIds: Int32Array.of(byte("1")) },
    ];
    for (const settings of forbidding) {
      const slot = model.openSlot(plainSlot({ grammar: compiled.matcher(), ...settings }));
      const first = await model.step([sequenceOf({ slot, maxForced: 10 })]);
      const second = await model.step([sequenceOf({ slot, tokens: null, position: 3, outputIndex: 1, maxForced: 10 })]);
      expect([first.tokens[0], first.forced[0], second.tokens[0]]).toEqual([byte("0"), null, -1]);
      model.closeSlot(slot);
    }
  });

  it("may stop with its stop ids where the grammar is complete, and only there", async () => {
    const compiled = await compileGrammar(vocabulary, grammar(repeat(text("0"), 2, 2)));
    const seen = new Set<string>();
    for (let seed = 0; seed < 24; seed++) {
      const stopIds = Int32Array.of(byte("9"), SPECIAL);
      const slot = model.openSlot(
        plainSlot({ seed: BigInt(seed), temperature: 50, grammar: compiled.matcher(), stopIds }),
      );
      const tokens = await draw(slot, 4);
      expect([tokens[0], tokens[1], tokens[3]]).toEqual([byte("0"), byte("0"), -1]);
      seen.add(String(tokens[2]));
      model.closeSlot(slot);
    }
    expect(seen).toEqual(new Set([byte("9"), SPECIAL, END].map(String)));
  });

  it("must know all tokens of the model", async () => {
    const small = await vocabularyOf(END + 1);
    const matcher = (await compileGrammar(small, LISTS)).matcher();
    for (const grammar of [matcher, {}, "a"]) {
      const error = await failure(() => model.openSlot(plainSlot({ grammar: grammar as never })));
      expect([error.code, error.param]).toEqual(["invalid_argument", "params.grammar"]);
    }
  });
});
