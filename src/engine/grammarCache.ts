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
      const special = [...tokenizer.specialIds].map((id): [string, number] => [tokenizer.tokenText(id), id]);
      const vocabulary = prepareVocabulary(vocabularyOf(base));
      model = { vocabulary, specialTokens: new Map(special), grammars: new Map() };
      this.models.set(base, model);
    }
    return model;
  }
}

/** Two constraints of one key are the same. */
function keyOf(constraint: Constraint, thoughts: Thoughts): string {
  try {
    const text = JSON.stringify([constraint, thoughts], (_, value) =>
      typeof value === "bigint" ? { bigint: String(value) } : value,
    );
    return createHash("sha256").update(text).digest("base64");
  } catch {
    throw new GrammarError("must be plain JSON, not nested too deep");
  }
}

/** Ids without a token of their own have no bytes, so that they never match. */
function vocabularyOf({ tokenizer, config, generationConfig }: BaseModel): VocabularyParts {
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
    special: Int32Array.from(tokenizer.specialIds),
    end: Int32Array.from([...ends].filter((id) => id >= 0 && id < config.vocab)),
  };
}
