// Compiled grammars, shared by all requests that ask for the same: compiled once, kept while they are used.

import { createHash } from "node:crypto";
import { GrammarError } from "../grammar/grammarError.js";
import type { Constraint, Thoughts } from "../grammar/index.js";
import {
  type CompiledGrammar,
  compileGrammar,
  type GrammarVocabulary,
  prepareVocabulary,
  type VocabularyParts,
} from "../runtime/runtime.js";
import type { BaseModel } from "./baseModel.js";
import type { GrammarCompiler } from "./chat/constraint.js";

/** Grammars of one model that are kept when nothing uses them. */
const MOST_KEPT = 256;

interface ModelGrammars {
  vocabulary: Promise<GrammarVocabulary>;
  specialTokens: ReadonlyMap<string, number>;
  thoughtIds: Int32Array;
  /** By constraint, the one used longest ago first. */
  grammars: Map<string, Promise<CompiledGrammar>>;
}

export class GrammarCache implements GrammarCompiler {
  private readonly models = new WeakMap<BaseModel, ModelGrammars>();

  async compile(base: BaseModel, constraint: Constraint, thoughts: Thoughts): Promise<CompiledGrammar> {
    const model = this.model(base);
    const key = keyOf(constraint, thoughts);
    let grammar = model.grammars.get(key);
    model.grammars.delete(key);
    grammar ??= this.compileAnew(model, constraint, thoughts);
    model.grammars.set(key, grammar);
    if (model.grammars.size > MOST_KEPT) model.grammars.delete(model.grammars.keys().next().value!);
    try {
      return await grammar;
    } catch (error) {
      if (model.grammars.get(key) === grammar) model.grammars.delete(key);
      throw error;
    }
  }

  thoughtIds(base: BaseModel): Int32Array {
    return this.model(base).thoughtIds;
  }

  private async compileAnew(
    { vocabulary, specialTokens }: ModelGrammars,
    constraint: Constraint,
    thoughts: Thoughts,
  ): Promise<CompiledGrammar> {
    // Loaded by the first request that needs it: most processes start sooner without.
    const { constraintGrammar, encodeGrammar } = await import("../grammar/index.js");
    const program = encodeGrammar(constraintGrammar(constraint, { specialTokens, thoughts }));
    return compileGrammar(await vocabulary, program);
  }

  private model(base: BaseModel): ModelGrammars {
    let model = this.models.get(base);
    if (model === undefined) {
      const { tokenizer } = base;
      const parts = vocabularyOf(base);
      const named = Array.from(parts.special, (id): [string, number] => [tokenizer.tokenText(id), id]);
      model = {
        vocabulary: prepareVocabulary(parts),
        specialTokens: new Map(named),
        thoughtIds: thoughtIdsOf(base, parts),
        grammars: new Map(),
      };
      this.models.set(base, model);
    }
    return model;
  }
}

/** What JSON cannot say is said by objects of one field; objects with such a field are said by their entries. */
function distinct(_: string, value: unknown): unknown {
  if (typeof value === "bigint") return { bigint: String(value) };
  const isMistakable = typeof value === "object" && value !== null && ("bigint" in value || "entries" in value);
  return isMistakable && !Array.isArray(value) ? { entries: Object.entries(value) } : value;
}

/** Two constraints of one key are the same. */
function keyOf(constraint: Constraint, thoughts: Thoughts): string {
  try {
    const text = JSON.stringify([constraint, thoughts], distinct);
    return createHash("sha256").update(text).digest("base64");
  } catch {
    throw new GrammarError("must be plain JSON, not nested too deep");
  }
}

/** Ids without a token of their own have no bytes, so that they never match. */
function vocabularyOf(base: BaseModel): VocabularyParts {
  const { tokenizer, config, generationConfig } = base;
  const offsets = new Int32Array(config.vocab + 1);
  const pieces: Uint8Array[] = [];
  for (let id = 0; id < config.vocab; id++) {
    const bytes = id < tokenizer.vocabSize ? tokenizer.tokenBytes(id) : new Uint8Array(0);
    pieces.push(bytes);
    offsets[id + 1] = offsets[id]! + bytes.length;
  }
  const ends = new Set(generationConfig.eos_token_id);
  if (tokenizer.eosId !== null) ends.add(tokenizer.eosId);
  return {
    tokens: Buffer.concat(pieces),
    offsets,
    special: Int32Array.from(new Set([...tokenizer.specialIds, ...thoughtMarkIds(base)])),
    end: Int32Array.from([...ends].filter((id) => id >= 0 && id < config.vocab)),
  };
}

/** Tokens of their own in most vocabularies of models that think: a grammar may name them, and no text is them. */
const THOUGHT_MARKS = ["<think>", "</think>"];

function thoughtMarkIds({ tokenizer }: BaseModel): number[] {
  return THOUGHT_MARKS.map((mark) => tokenizer.tokenToId(mark)).filter((id) => id !== null);
}

/** `<think>`, or where that is no token, all that its spelling may begin with. */
function thoughtIdsOf({ tokenizer }: BaseModel, { tokens, offsets }: VocabularyParts): Int32Array {
  const opening = Buffer.from(THOUGHT_MARKS[0]!);
  const id = tokenizer.tokenToId(THOUGHT_MARKS[0]!);
  if (id !== null) return Int32Array.of(id);
  return Int32Array.from(offsets.subarray(0, -1).keys()).filter((token) => {
    const [from, to] = [offsets[token]!, offsets[token + 1]!];
    const shared = Math.min(to - from, opening.length);
    return shared > 0 && opening.compare(tokens, from, from + shared, 0, shared) === 0;
  });
}
