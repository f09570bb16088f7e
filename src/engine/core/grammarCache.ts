// Compiled grammars, shared by all requests that ask for the same: compiled once, kept while they are used.

import { createHash } from "node:crypto";
import { untilAborted } from "../../abortListeners.js";
import {
  type CompiledGrammar,
  compileGrammar,
  type GrammarRequest,
  type GrammarVocabulary,
  prepareVocabulary,
  type VocabularyParts,
} from "../../runtime/runtime.js";
import type { Constraint, Thoughts } from "../../structuredOutputs/index.js";
import { REASONING_TOKENS } from "../../text/index.js";
import type { BaseModel } from "./baseModel.js";

/** Grammars of one model that are kept when nothing uses them. */
const MAX_IDLE_GRAMMARS = 256;

interface ModelGrammars {
  vocabulary: Promise<GrammarVocabulary>;
  specialTokens: ReadonlyMap<string, number>;
  /** Those that literals may be drawn as. */
  literalTokens: ReadonlyMap<string, number>;
  parts: VocabularyParts;
  /** By the marks that open thoughts. */
  thoughtIds: Map<string, Int32Array>;
  /** By constraint, the one used longest ago first: a Map keeps that order, and needs no lru-cache. */
  grammars: Map<string, Compilation>;
}

interface Compilation {
  grammar: Promise<CompiledGrammar>;
  /** Requests that wait for it: with the last one gone nobody needs it any more. */
  waiting: number;
  isCompiled: boolean;
  abort: AbortController;
}

/** Turns constraints into automata over the tokens of a model's vocabulary. */
export interface GrammarCompiler {
  /** Off the JavaScript thread where it is long. Throws GrammarError, or what the runtime's compileGrammar throws. */
  compile(
    base: BaseModel,
    constraint: Constraint,
    thoughts: Thoughts | null,
    request?: GrammarRequest,
  ): Promise<CompiledGrammar>;
  /** The tokens that thoughts may begin with which one of `opens` opens. */
  thoughtIds(base: BaseModel, opens: readonly string[]): Int32Array;
}

export class GrammarCache implements GrammarCompiler {
  private readonly models = new WeakMap<BaseModel, ModelGrammars>();

  async compile(
    base: BaseModel,
    constraint: Constraint,
    thoughts: Thoughts | null,
    { client, signal }: GrammarRequest = {},
  ): Promise<CompiledGrammar> {
    signal?.throwIfAborted();
    // Loaded by the first request that needs it: most processes start sooner without.
    const { constraintText } = await import("../../structuredOutputs/index.js");
    const text = await constraintText(constraint);
    signal?.throwIfAborted();
    const { grammars, ...model } = this.model(base);
    // Two constraints of one key are the same.
    const key = createHash("sha256").update(JSON.stringify(thoughts)).update(text).digest("base64");
    const compilation = grammars.get(key) ?? start((signal) => compileAnew(model, text, thoughts, { client, signal }));
    grammars.delete(key);
    grammars.set(key, compilation);
    if (grammars.size > MAX_IDLE_GRAMMARS) grammars.delete(grammars.keys().next().value!);
    const drop = () => {
      if (grammars.get(key) === compilation) grammars.delete(key);
    };
    compilation.waiting++;
    try {
      return await untilAborted(compilation.grammar, signal);
    } catch (error) {
      if (!signal?.aborted) drop();
      throw error;
    } finally {
      if (--compilation.waiting === 0 && !compilation.isCompiled) {
        drop();
        compilation.abort.abort();
      }
    }
  }

  thoughtIds(base: BaseModel, opens: readonly string[]): Int32Array {
    const { parts, thoughtIds } = this.model(base);
    const key = JSON.stringify(opens);
    let ids = thoughtIds.get(key);
    if (ids === undefined) {
      ids = Int32Array.from(new Set(opens.flatMap((open) => [...firstTokens(base, parts, open)])));
      thoughtIds.set(key, ids);
    }
    return ids;
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
        literalTokens: new Map(named.filter(([text]) => REASONING_TOKENS.includes(text))),
        parts,
        thoughtIds: new Map(),
        grammars: new Map(),
      };
      this.models.set(base, model);
    }
    return model;
  }
}

async function compileAnew(
  { vocabulary, specialTokens, literalTokens }: Pick<ModelGrammars, "vocabulary" | "specialTokens" | "literalTokens">,
  text: string,
  thoughts: Thoughts | null,
  request: GrammarRequest,
): Promise<CompiledGrammar> {
  const { constraintProgram } = await import("../../structuredOutputs/index.js");
  request.signal?.throwIfAborted();
  const program = await constraintProgram(text, { specialTokens, literalTokens, thoughts }, request.signal);
  return compileGrammar(await vocabulary, program, {}, request);
}

function start(compile: (signal: AbortSignal) => Promise<CompiledGrammar>): Compilation {
  const abort = new AbortController();
  const compilation = { grammar: compile(abort.signal), waiting: 0, isCompiled: false, abort };
  compilation.grammar.then(
    () => {
      compilation.isCompiled = true;
    },
    () => undefined,
  );
  return compilation;
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

/** A grammar may name them, its literals may be them, and no other text is. */
function thoughtMarkIds({ tokenizer }: BaseModel): number[] {
  return REASONING_TOKENS.map((mark) => tokenizer.tokenToId(mark)).filter((id) => id !== null);
}

/** The mark, or the special token that it begins with, or else all that its spelling may begin with. */
function firstTokens(
  { tokenizer }: BaseModel,
  { tokens, offsets, special }: VocabularyParts,
  mark: string,
): Int32Array {
  const opening = Buffer.from(mark);
  const begins = (text: string) => text !== "" && mark.startsWith(text);
  const id = tokenizer.tokenToId(mark) ?? special.find((one) => begins(tokenizer.tokenText(one)));
  if (id !== undefined) return Int32Array.of(id);
  return Int32Array.from(offsets.subarray(0, -1).keys()).filter((token) => {
    const [from, to] = [offsets[token]!, offsets[token + 1]!];
    const shared = Math.min(to - from, opening.length);
    return shared > 0 && opening.compare(tokens, from, from + shared, 0, shared) === 0;
  });
}
