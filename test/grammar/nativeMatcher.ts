// Which texts a grammar matches, by the native engine over a vocabulary of single bytes.

import { encodeGrammar, type Grammar } from "../../src/grammar/ir.js";
import {
  type CompiledGrammar,
  compileGrammar,
  type GrammarBudgets,
  type GrammarVocabulary,
  prepareVocabulary,
} from "../../src/runtime/runtime.js";

const END = 256;
const vocabulary = vocabularyOf(Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)));

/** These tokens, and one that ends the output. */
export function vocabularyOf(tokens: readonly Uint8Array[]): Promise<GrammarVocabulary> {
  const offsets = new Int32Array(tokens.length + 2);
  for (const [i, token] of tokens.entries()) offsets[i + 1] = offsets[i]! + token.length;
  offsets[tokens.length + 1] = offsets[tokens.length]!;
  const end = Int32Array.of(tokens.length);
  return prepareVocabulary({ tokens: Buffer.concat(tokens), offsets, special: end, end });
}

export async function compiled(grammar: Grammar, budgets: GrammarBudgets = {}): Promise<CompiledGrammar> {
  return compileGrammar(await vocabulary, encodeGrammar(grammar), budgets);
}

export function takes(grammar: CompiledGrammar, text: string): boolean {
  const matcher = grammar.matcher();
  const bytes = new TextEncoder().encode(text);
  return (bytes.length === 0 || matcher.acceptBytes(bytes)) && matcher.complete;
}

/** A text drawn byte by byte from what the masks permit; null when it comes to more than `most` bytes. */
export function drawn(grammar: CompiledGrammar, next: () => number, most: number): string | null {
  const matcher = grammar.matcher();
  const bytes: number[] = [];
  for (;;) {
    const mask = matcher.mask();
    const permitted: number[] = [];
    for (let id = 0; id <= END; id++) if ((mask[id >> 5]! >>> (id & 31)) & 1) permitted.push(id);
    if (permitted.length === 0) throw new Error(`nothing may follow ${JSON.stringify(Buffer.from(bytes).toString())}`);
    // An end that may come is taken more often than its share, so that texts end.
    const token = permitted.includes(END) && next() < 0.3 ? END : permitted[Math.floor(next() * permitted.length)]!;
    if (token === END) return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
    if (!matcher.accept(token)) throw new Error(`byte ${token} is in the mask and not accepted`);
    bytes.push(token);
    if (bytes.length > most) return null;
  }
}
