// Beam search over one prompt: `width` beams advance together, one token a step, ranked by cumulative raw logprob.

import type { RowLogprobs } from "../runtime/runtime.js";
import type { Tokenizer } from "../text/index.js";
import { isTurnUsedUp, nextTurn } from "../turns.js";
import { BeamText } from "./beamText.js";
import { BestOf } from "./bestOf.js";
import { ChoiceOutput } from "./choiceOutput.js";
import type { BeamSettings, Finish, SamplingSettings, TokensEvent, TopLogprobs } from "./request.js";
import { Sequence, type SequenceOrigin } from "./sequence.js";
import { endIds } from "./stopping.js";

/** The last token of a hypothesis, linked to those before it: hypotheses share their beginnings. */
interface Drawn {
  before: Drawn | null;
  token: number;
  logprob: number;
  top: TopLogprobs | null;
}

interface Beam {
  sequence: Sequence;
  /** Its place among the living. */
  place: number;
  cumulative: number;
  last: Drawn | null;
  /** null: no stop strings. */
  text: BeamText | null;
  /** Whether its row has come. */
  isRead: boolean;
}

interface Candidate {
  beam: Beam;
  /** Its place among the permitted tokens of the beam's row. */
  rank: number;
  cumulative: number;
  drawn: Drawn;
}

interface Hypothesis {
  candidate: Candidate;
  finish: Finish;
  score: number;
  outputs: number;
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
  /** The best continuations of the rows that have come. */
  private next: BestOf<Candidate>;
  private readonly done: BestOf<Hypothesis>;
  private readonly beam: BeamSettings;
  private readonly params: SamplingSettings;
  /** Ids no beam may draw before `minTokens` outputs. */
  private readonly endIds: ReadonlySet<number>;
  /** Ids that end a beam. */
  private readonly stopIds: ReadonlySet<number>;
  private readonly allowed: ReadonlySet<number> | null;
  private isStopped = false;

  constructor(
    origin: SequenceOrigin,
    prompt: Int32Array,
    private readonly tokenizer: Tokenizer,
    private readonly host: BeamHost,
    vocab: number,
  ) {
    const { params } = origin;
    this.params = params;
    this.beam = params.beam!;
    this.endIds = new Set(endIds(params, vocab));
    this.stopIds = new Set(params.ignoreEos ? params.stopTokenIds : this.endIds);
    this.allowed = params.allowedTokenIds === null ? null : new Set(params.allowedTokenIds);
    this.next = new BestOf(this.beam.width, isBefore);
    this.done = new BestOf(this.beam.width, isBetter);
    this.root = new Sequence(origin, 0, prompt, null, candidatesNeeded(params, this.endIds.size, vocab));
    const text = params.stop.length === 0 ? null : BeamText.empty(params, tokenizer);
    this.live = [{ sequence: this.root, place: 0, cumulative: 0, last: null, text, isRead: false }];
    this.beamOf.set(this.root, this.live[0]!);
  }

  /**
   * Takes the row of a beam's last token. Once all beams have theirs, those of the next step are branched off, or `choice`
   * is called with every choice, best first: then the search has ended, and it resolves to true.
   */
  async report(sequence: Sequence, row: RowLogprobs, choice: (event: TokensEvent) => void): Promise<boolean> {
    const beam = this.beamOf.get(sequence);
    if (beam === undefined || beam.isRead) return false;
    beam.isRead = true;
    this.read(beam, row);
    while (isTurnUsedUp()) await nextTurn();
    if (--this.awaited > 0) return false;
    await this.advance();
    if (this.live.length > 0 || this.isStopped) return false;
    for (const [index, hypothesis] of this.done.inOrder().entries()) {
      choice(this.event(hypothesis, index));
      while (isTurnUsedUp()) await nextTurn();
    }
    return !this.isStopped;
  }

  /** Ends the search wherever it stands. */
  stop(): void {
    this.isStopped = true;
    for (const { sequence } of this.live) this.host.finish(sequence);
    this.live = [];
    this.beamOf.clear();
  }

  /** Sifts the 2 x width likeliest permitted continuations of a beam. */
  private read(beam: Beam, { topIds, topLogprobs }: RowLogprobs): void {
    const { sequence } = beam;
    const top = this.topOf(topIds, topLogprobs);
    const most = 2 * this.beam.width;
    let mayGoOn = true;
    for (let i = 0, rank = 0; i < topIds.length && rank < most; i++) {
      const token = topIds[i]!;
      if (!this.isPermitted(sequence, token)) continue;
      const logprob = topLogprobs[i]!;
      const cumulative = beam.cumulative + logprob;
      // Logprobs fall along the row, so behind the first that comes too late only ends are of interest.
      mayGoOn &&= this.isInTime(cumulative, beam.place);
      const finish = mayGoOn || this.stopIds.size > 0 || beam.text !== null ? this.verdict(beam, token) : null;
      if (!mayGoOn && finish === null) {
        if (this.stopIds.size === 0 && beam.text === null) return;
      } else {
        const drawn = { before: beam.last, token, logprob, top };
        const candidate = { beam, rank, cumulative, drawn };
        if (finish === null) this.next.offer(candidate);
        else this.complete(candidate, finish);
      }
      rank++;
    }
  }

  private topOf(ids: Int32Array, logprobs: Float32Array): TopLogprobs | null {
    const count = this.params.logprobs;
    return count === null ? null : { ids: ids.slice(0, count), logprobs: logprobs.slice(0, count) };
  }

  /** Whether a candidate may be among the best of the next step. */
  private isInTime(cumulative: number, place: number): boolean {
    const worst = this.next.threshold;
    if (worst === null || cumulative > worst.cumulative) return true;
    return cumulative === worst.cumulative && place < worst.beam.place;
  }

  private isPermitted(sequence: Sequence, token: number): boolean {
    if (this.allowed !== null && !this.allowed.has(token)) return false;
    if (sequence.outputs < this.params.minTokens && this.endIds.has(token)) return false;
    return !this.params.badWords.some((word) => completes(sequence, word, token));
  }

  private verdict({ sequence, text }: Beam, token: number): Finish | null {
    if (sequence.outputs + 1 < this.params.minTokens) return null;
    const isEnd = this.stopIds.has(token);
    // The text of an end counts only where it is shown; a stop string in it is then what ends the text.
    const isRead = text !== null && (!isEnd || this.params.includeStop);
    const stop = isRead ? text.stopAfter(token) : null;
    if (stop !== null) return { reason: "stop", stopReason: stop };
    return isEnd ? { reason: "stop", stopReason: token } : null;
  }

  private complete(candidate: Candidate, finish: Finish): void {
    const { promptLength, outputs } = candidate.beam.sequence;
    const isEnd = candidate.drawn.token === this.params.eosId;
    const score = this.score(candidate.cumulative, promptLength + outputs + (isEnd ? 0 : 1));
    this.done.offer({ candidate, finish, score, outputs: outputs + 1 });
  }

  /** The length counts the prompt, without a final end of sequence. */
  private score(cumulative: number, length: number): number {
    return cumulative / length ** this.beam.lengthPenalty;
  }

  /** Every row has come: the best continuations become the living beams. */
  private async advance(): Promise<void> {
    const parents = this.live;
    const next = this.next.inOrder();
    this.next = new BestOf(this.beam.width, isBefore);
    this.beamOf.clear();
    const isOver = parents[0]!.sequence.outputs + 1 >= this.params.maxTokens;
    if (isOver) for (const candidate of next) this.complete(candidate, { reason: "length", stopReason: null });
    const going = isOver || this.isDecided(next) ? [] : next;
    this.awaited = going.length;

    const children = new Map<Beam, number>();
    for (const { beam } of going) children.set(beam, (children.get(beam) ?? 0) + 1);
    this.live = parents.filter((parent) => children.has(parent));
    for (const parent of parents) {
      if (!children.has(parent)) this.host.finish(parent.sequence);
      while (isTurnUsedUp()) await nextTurn();
    }
    for (const [place, candidate] of going.entries()) {
      while (isTurnUsedUp()) await nextTurn();
      if (this.isStopped) return;
      const { beam: parent } = candidate;
      const child = this.continue(candidate, place);
      this.live.push(child);
      this.beamOf.set(child.sequence, child);
      const left = children.get(parent)! - 1;
      children.set(parent, left);
      // Its last child has its pages to itself.
      if (left === 0) this.host.finish(parent.sequence);
    }
    if (!this.isStopped) this.live = this.live.slice(this.live.length - going.length);
  }

  /** Whether no living beam can still reach the best `width` finished ones. Cumulative logprobs only fall. */
  private isDecided(next: Candidate[]): boolean {
    const best = next[0];
    if (best === undefined) return true;
    const worst = this.done.threshold;
    if (worst === null) return false;
    const { promptLength, length } = best.beam.sequence;
    const kindest = this.beam.lengthPenalty >= 0 ? promptLength + this.params.maxTokens : length + 1;
    return this.score(best.cumulative, kindest) <= worst.score;
  }

  private continue({ beam, cumulative, drawn }: Candidate, place: number): Beam {
    const sequence = beam.sequence.fork(place, drawn.token);
    this.host.branch(beam.sequence, sequence);
    const text = beam.text?.after(drawn.token) ?? null;
    return { sequence, place, cumulative, last: drawn, text, isRead: false };
  }

  private event({ candidate, finish, outputs }: Hypothesis, index: number): TokensEvent {
    const drawn = new Array<Drawn>(outputs);
    let one: Drawn | null = candidate.drawn;
    for (let i = outputs - 1; one !== null; i--, one = one.before) drawn[i] = one;
    const sequence = new Sequence(this.root.origin, index, this.root.tokens, null);
    const output = new ChoiceOutput(sequence, this.params, this.tokenizer, false);
    for (const { token, logprob, top } of drawn) {
      sequence.append(token);
      if (output.add({ logprob, temperatureLogprob: Number.NaN, top }) !== null) return output.take(finish);
    }
    output.end(finish);
    return output.take(finish);
  }
}

/** Best first; of equal ones the earlier beam's, of one beam's the lower id. */
function isBefore(a: Candidate, b: Candidate): boolean {
  if (a.cumulative !== b.cumulative) return a.cumulative > b.cumulative;
  return a.beam === b.beam ? a.rank < b.rank : a.beam.place < b.beam.place;
}

/** Best first; of equal ones the one that ended earlier, and by itself. */
function isBetter(a: Hypothesis, b: Hypothesis): boolean {
  if (a.score !== b.score) return a.score > b.score;
  if (a.outputs !== b.outputs) return a.outputs < b.outputs;
  const [aRanOut, bRanOut] = [a.finish.reason === "length", b.finish.reason === "length"];
  return aRanOut === bRanOut ? isBefore(a.candidate, b.candidate) : bRanOut;
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
