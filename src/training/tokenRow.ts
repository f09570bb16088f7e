// What training computes on: a sequence of tokens, and which of them are trained.

/** A sequence of tokens, not shifted: entry i of every array is about token i. */
export interface TokenRow {
  tokens: Int32Array;
  /** 1: to be trained. The first token of a row never is: nothing predicts it. */
  trained: Uint8Array;
  /** Of the softmax that each trained token's logprob and entropy are of; absent: 1 everywhere. */
  temperatures?: Float32Array;
}

/** Tokens of a row that are trained. */
export function countTrained(row: TokenRow): number {
  return row.trained.reduce((sum, trained) => sum + (trained ? 1 : 0), 0);
}

/** Whether `longer` goes on from `prefix`. */
export function startsWith(longer: readonly number[], prefix: readonly number[]): boolean {
  return longer.length >= prefix.length && prefix.every((id, i) => longer[i] === id);
}
