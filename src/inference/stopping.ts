// Whether a choice ends with the token it has just got, by ids alone; stop strings are looked for in text, afterwards.

import type { Finish, RepetitionDetection, SamplingSettings } from "./request.js";

/** The stops of one request; the same for all its choices. */
export class Stopping {
  /** Ids that end a choice and are named as its stop reason. */
  private readonly stopIds: ReadonlySet<number>;
  private readonly eosId: number | null;

  constructor(private readonly params: SamplingSettings) {
    this.eosId = params.ignoreEos ? null : params.eosId;
    this.stopIds = new Set(params.ignoreEos ? params.stopTokenIds : [...params.stopTokenIds, ...params.extraEosIds]);
  }

  /** The output tokens are `tokens[start .. end)`, the newest last. */
  check(tokens: Int32Array, start: number, end: number): Finish | null {
    const { params } = this;
    const count = end - start;
    if (count < params.minTokens) return null;
    const token = tokens[end - 1]!;
    if (token === this.eosId) return { reason: "stop", stopReason: null };
    if (this.stopIds.has(token)) return { reason: "stop", stopReason: token };
    if (count >= params.maxTokens) return { reason: "length", stopReason: null };
    if (params.repetitionDetection !== null && repeats(tokens.subarray(start, end), params.repetitionDetection)) {
      return { reason: "repetition", stopReason: "repetition_detected" };
    }
    return null;
  }
}

/** Ids no choice may take before `minTokens` outputs: every end of sequence, even one that would be ignored. */
export function endIds(params: SamplingSettings, vocab: number): Int32Array {
  const ids = new Set([...params.extraEosIds, ...params.stopTokenIds]);
  if (params.eosId !== null) ids.add(params.eosId);
  return knownIds(ids, vocab);
}

/** Those of the ids that are in the vocabulary, rising, each once. */
export function knownIds(ids: Iterable<number>, vocab: number): Int32Array {
  return Int32Array.from([...new Set(ids)].filter((id) => id >= 0 && id < vocab)).sort();
}

/** Whether `outputs` ends in `minCount` identical copies of a pattern within the sizes asked for. */
export function repeats(outputs: Int32Array, detection: RepetitionDetection): boolean {
  const { maxPatternSize, minPatternSize, minCount } = detection;
  for (let size = Math.max(1, minPatternSize); size <= maxPatternSize; size++) {
    const span = size * minCount;
    if (span > outputs.length) return false;
    let at = outputs.length - 1;
    const until = outputs.length - span + size;
    while (at >= until && outputs[at] === outputs[at - size]) at--;
    if (at < until) return true;
  }
  return false;
}
