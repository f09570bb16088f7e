/**
 * Structured outputs at the compute boundary: a tokenizer's vocabulary, a grammar compiled for it, and the state of one
 * output that follows the grammar. Masks and matching are native; objects are freed with the last reference, also one
 * that a slot holds.
 */

/** What a tokenizer's tokens are made of. */
export interface VocabularyParts {
  /** The bytes of all tokens, one after the other. A token without bytes matches no text: pad with such ones up to the model's vocabulary. */
  tokens: Uint8Array;
  /** Token i lies at offsets[i] .. offsets[i + 1]; one entry more than there are tokens. */
  offsets: Int32Array;
  /** Tokens that never match text: a grammar may name them one by one. */
  special: Int32Array;
  /** Tokens that end an output, permitted where the grammar is complete. They are special whether listed there or not. */
  end: Int32Array;
}

/** Made once per tokenizer and shared by all grammars. */
export interface GrammarVocabulary {
  readonly size: number;
}

export interface CompiledGrammar {
  /** At the beginning of an output. */
  matcher(): GrammarMatcher;
}

export interface GrammarMatcher {
  /** False, and nothing changes, where the token may not follow. Each accepted token or run of bytes is one step. */
  accept(token: number): boolean;
  /** Text that was put in rather than drawn: one step. */
  acceptBytes(bytes: Uint8Array): boolean;
  /**
   * Bit i % 32 of word i / 32 permits token i; end tokens are permitted where the output may end. Written into the array that
   * is given (a word for every 32 tokens begun), else into a new one.
   */
  mask(into?: Uint32Array): Uint32Array;
  /** The output may end here. */
  readonly complete: boolean;
  /** An end token was accepted; nothing may follow. */
  readonly finished: boolean;
  readonly steps: number;
  /** The one token that may follow; -1 where there is a choice, or nothing may follow. */
  forced(): number;
  /** Takes back the last `steps` steps. */
  rewind(steps: number): void;
  clone(): GrammarMatcher;
}

/** What compiling may cost. Past one of them the grammar is refused with code "grammar_too_complex". */
export interface GrammarBudgets {
  /** Of the compiling thread's own time. */
  milliseconds?: number;
  /** Of all automata built on the way. */
  states?: number;
  bytes?: number;
  /** Of expressions within a rule; at most 1000. */
  nesting?: number;
  rules?: number;
}

/** Who asks for a grammar, and until when. */
export interface GrammarRequest {
  /** Clients take turns. */
  client?: string;
  /** Ends compiling; the call then rejects with the signal's reason. */
  signal?: AbortSignal;
}
