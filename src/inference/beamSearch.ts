// Beam search over one prompt: `width` beams advance together, one token a step, ranked by cumulative raw logprob.

import type { RowLogprobs } from "../runtime/runtime.js";
import type { Tokenizer } from "../text/index.js";
import { ChoiceOutput } from "./choiceOutput.js";
import type { BeamSettings, Finish, SamplingSettings, TokensEvent, TopLogprobs } from "./request.js";
import { Sequence, type SequenceOrigin } from "./sequence.js";
import { endIds } from "./stopping.js";
import { StopStrings } from "./stopStrings.js";

interface Drawn {
  logprob: number;
  top: TopLogprobs | null;
}

/** A hypothesis: its tokens lie in the sequence, aligned with `drawn`. */
interface Beam {
  sequence: Sequence;
  cumulative: number;
  drawn: Drawn[];
  row: RowLogprobs | null;
}

interface Candidate {
  beam: Beam;
  token: number;
  cumulative: number;
  drawn: Drawn;
}

interface Hypothesis {
  tokens: Int32Array;
  drawn: Drawn[];
  finish: Finish;
  score: number;
}

/** What the search asks of the scheduler. */
export interface BeamHost {
  branch(parent: Sequence, branch: Sequence): void;
  finish(sequence: Sequence): void;
}

export class BeamSearch {
  readonly root: Sequence;
  private live: Beam[];
  private readonly beamOf = new Map<Sequence, Beam>();
  /** Living beams whose row has not come. */
  private awaited = 1;
  private readonly done: Hypothesis[] = [];
  private readonly beam: BeamSettings;
  private readonly endIds: ReadonlySet<number>;
  private readonly allowed: ReadonlySet<number> | null;

  constructor(
    origin: SequenceOrigin,
    prompt: Int32Array,
    private readonly tokenizer: Tokenizer,
    private readonly host: BeamHost,
    vocab: number,
  ) {
    this.params = origin.params;
    this.beam = origin.params.beam!;
    this.endIds = new Set(endIds(origin.params, vocab));
    this.allowed = origin.params.allowedTokenIds === null ? null : new Set(origin.params.allowedTokenIds);
    this.root = new Sequence(origin, 0, prompt, null, candidatesNeeded(origin.params, this.endIds.size, vocab));
    this.live = [{ sequence: this.root, cumulative: 0, drawn: [], row: null }];
    this.beamOf.set(this.root, this.live[0]!);
  }

  private readonly params: SamplingSettings;

  /** The beams under way. */
  get sequences(): Sequence[] {
    return this.live.map((beam) => beam.sequence);
  }

  /** Takes the row of a beam's last token. Returns all choices, best first, when the search has ended. */
  report(sequence: Sequence, row: RowLogprobs): TokensEvent[] | null {
    const beam = this.beamOf.get(sequence);
    if (beam === undefined) return null;
    if (beam.row === null) this.awaited--;
    beam.row = row;
    if (this.awaited > 0) return null;
    this.advance();
    this.beamOf.clear();
    for (const one of this.live) this.beamOf.set(one.sequence, one);
    this.awaited = this.live.length;
    return this.live.length === 0 ? this.best() : null;
  }

  private advance(): void {
    const parents = this.live;
    const next: Candidate[] = [];
    for (const candidate of this.candidates(parents)) {
      const ended = this.verdict(candidate);
      if (ended !== null) this.complete(candidate, ended);
      else if (next.length < this.beam.width) next.push(candidate);
    }
    const length = parents[0]!.sequence.outputs + 1;
    const over = length >= this.params.maxTokens;
    if (over) for (const candidate of next) this.complete(candidate, { reason: "length", stopReason: null });
    this.live = over || this.isDecided(next) ? [] : next.map((candidate, index) => this.continue(candidate, index));
    for (const parent of parents) this.host.finish(parent.sequence);
  }

  /** The 2 x width likeliest permitted continuations of every beam, best first. */
  private candidates(parents: Beam[]): Candidate[] {
    const all: Candidate[] = [];
    for (const beam of parents) {
      const { topIds, topLogprobs } = beam.row!;
      const count = this.params.logprobs;
      const top = count === null ? null : { ids: topIds.slice(0, count), logprobs: topLogprobs.slice(0, count) };
      let taken = 0;
      for (let i = 0; i < topIds.length && taken < 2 * this.beam.width; i++) {
        const token = topIds[i]!;
        if (!this.isPermitted(beam.sequence, token)) continue;
        const logprob = topLogprobs[i]!;
        all.push({ beam, token, cumulative: beam.cumulative + logprob, drawn: { logprob, top } });
        taken++;
      }
    }
    return all.sort((a, b) => b.cumulative - a.cumulative);
  }

  private isPermitted(sequence: Sequence, token: number): boolean {
    if (this.allowed !== null && !this.allowed.has(token)) return false;
    if (sequence.outputs < this.params.minTokens && this.endIds.has(token)) return false;
    return !this.params.badWords.some((word) => completes(sequence, word, token));
  }

  private verdict({ beam, token }: Candidate): Finish | null {
    const { params } = this;
    const outputs = beam.sequence.outputs + 1;
    if (outputs < params.minTokens) return null;
    const isEnd =
      params.stopTokenIds.includes(token) ||
      (!params.ignoreEos && (token === params.eosId || params.extraEosIds.includes(token)));
    if (isEnd) return { reason: "stop", stopReason: token };
    if (params.stop.length === 0) return null;
    const stop = this.stopStringAtEnd(beam.sequence, token);
    return stop === null ? null : { reason: "stop", stopReason: stop };
  }

  private stopStringAtEnd(sequence: Sequence, token: number): string | null {
    const stops = new StopStrings(this.params.stop, this.params.includeStop);
    const decoder = this.tokenizer.stream(this.params);
    const outputs = [...sequence.tokens.subarray(sequence.promptLength, sequence.length), token];
    for (const [i, output] of outputs.entries()) {
      const shown = stops.push(decoder.push(output), i + 1 > this.params.minTokens);
      if (typeof shown !== "string") return shown.stop;
    }
    return null;
  }

  private complete(candidate: Candidate, finish: Finish): void {
    const { sequence, drawn } = candidate.beam;
    const tokens = new Int32Array(sequence.length + 1);
    tokens.set(sequence.tokens.subarray(0, sequence.length));
    tokens[sequence.length] = candidate.token;
    const ended = candidate.token === this.params.eosId;
    this.done.push({
      tokens,
      drawn: [...drawn, candidate.drawn],
      finish,
      score: this.score(candidate.cumulative, ended ? tokens.length - 1 : tokens.length),
    });
  }

  /** The length counts the prompt, without a final end of sequence. */
  private score(cumulative: number, length: number): number {
    return cumulative / length ** this.beam.lengthPenalty;
  }

  /** Whether no living beam can still reach the best `width` finished ones. Cumulative logprobs only fall. */
  private isDecided(next: Candidate[]): boolean {
    const { width, lengthPenalty } = this.beam;
    if (next.length === 0) return true;
    if (this.done.length < width) return false;
    const worst = this.done.map((one) => one.score).sort((a, b) => b - a)[width - 1]!;
    return next.every(({ beam, cumulative }) => {
      const { promptLength, length } = beam.sequence;
      const kindest = lengthPenalty >= 0 ? promptLength + this.params.maxTokens : length + 1;
      return this.score(cumulative, kindest) <= worst;
    });
  }

  private continue({ beam, token, cumulative, drawn }: Candidate, index: number): Beam {
    const sequence = Sequence.branch(beam.sequence, index, token);
    this.host.branch(beam.sequence, sequence);
    return { sequence, cumulative, drawn: [...beam.drawn, drawn], row: null };
  }

  private best(): TokensEvent[] {
    const ranked = this.done.sort((a, b) => b.score - a.score).slice(0, this.beam.width);
    return ranked.map((hypothesis, index) => this.event(hypothesis, index));
  }

  private event({ tokens, drawn, finish }: Hypothesis, index: number): TokensEvent {
    const { promptLength } = this.root;
    const sequence = new Sequence(this.root.origin, index, tokens.subarray(0, promptLength), null);
    const output = new ChoiceOutput(sequence, this.params, this.tokenizer, false);
    let ended: Finish | null = null;
    for (let i = 0; i < drawn.length && ended === null; i++) {
      sequence.append(tokens[promptLength + i]!);
      ended = output.add(drawn[i]!.logprob, drawn[i]!.top);
    }
    if (ended === null) output.end(finish);
    return output.take(finish);
  }
}

/** How many of a row's likeliest tokens hold 2 x width permitted ones for certain. */
function candidatesNeeded(params: SamplingSettings, endIdCount: number, vocab: number): number {
  if (params.allowedTokenIds !== null) return vocab;
  const masked = (params.minTokens > 0 ? endIdCount : 0) + params.badWords.length;
  return Math.min(vocab, Math.max(2 * params.beam!.width + masked, params.logprobs ?? 0));
}

/** Whether `token` would complete `word` at the end of the outputs. */
function completes(sequence: Sequence, word: readonly number[], token: number): boolean {
  const before = word.length - 1;
  if (word[before] !== token || before > sequence.outputs) return false;
  for (let i = 0; i < before; i++) {
    if (sequence.tokens[sequence.length - before + i] !== word[i]) return false;
  }
  return true;
}
