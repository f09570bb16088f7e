// Beam search over one prompt: `width` beams advance together, one token a step, ranked by cumulative raw logprob. It
// stands on top of the loop, which scores sequences and forks them.

import { ClosedError } from "../errors.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import type { RowLogprobs } from "../runtime/runtime.js";
import type { IncrementalDecoder, Tokenizer } from "../text/index.js";
import { ChoiceOutput } from "./choiceOutput.js";
import { EventQueue } from "./eventQueue.js";
import type { ModelLoop } from "./inferenceLoop.js";
import { NBest } from "./nBest.js";
import type {
  BeamSettings,
  Finish,
  Generation,
  GenerationEvent,
  GenerationRecord,
  GenerationRequest,
  SamplingSettings,
  TokensEvent,
  TopLogprobs,
} from "./request.js";
import type { ScoringRequest } from "./scoringRequest.js";
import { Sequence } from "./sequence.js";
import { endIds } from "./stopping.js";
import { StopStrings } from "./stopStrings.js";

/** A token of a hypothesis, linked to those before it: hypotheses share their beginnings. */
interface BeamToken {
  before: BeamToken | null;
  token: number;
  logprob: number;
  top: TopLogprobs | null;
}

interface Beam {
  sequence: Sequence;
  /** Rank among the live beams. */
  index: number;
  /** Sum of the raw logprobs of its outputs. */
  cumulative: number;
  last: BeamToken | null;
  /** null: no stop strings. */
  text: BeamText | null;
}

/** Outputs that a beam ends with or goes on with. */
interface Outcome {
  beam: Beam;
  /** Of the last token, among the permitted ones of the beam's row. */
  rank: number;
  cumulative: number;
  last: BeamToken | null;
}

/** A beam with one more token. */
interface Candidate extends Outcome {
  last: BeamToken;
}

/** How a choice ends that no token is permitted for. */
const NOTHING_PERMITTED: Finish = { reason: "stop", stopReason: null };

/** A beam that has ended. */
interface Hypothesis {
  outcome: Outcome;
  finish: Finish;
  score: number;
  outputs: number;
}

/**
 * Answers a request with the choices that beam search finds, best first, all at the end. Its `params.beam` must be set.
 * @throws as `ModelLoop.submit`, and so does iterating
 */
export function beamSearch(loop: ModelLoop, request: GenerationRequest, signal?: AbortSignal): Generation {
  return new BeamSearch(loop, request, signal);
}

class BeamSearch implements Generation {
  readonly record: GenerationRecord;
  readonly ended: Promise<void>;
  private readonly scoring: ScoringRequest;
  private readonly events: EventQueue;
  /** The best continuations of the rows read so far. */
  private next: NBest<Candidate>;
  private readonly done: NBest<Hypothesis>;
  private readonly beam: BeamSettings;
  private readonly params: SamplingSettings;
  /** Ids no beam may take before `minTokens` outputs. */
  private readonly endIds: ReadonlySet<number>;
  /** Ids that end a beam. */
  private readonly stopIds: ReadonlySet<number>;
  private readonly allowed: ReadonlySet<number> | null;

  constructor(
    private readonly loop: ModelLoop,
    request: GenerationRequest,
    signal: AbortSignal | undefined,
  ) {
    const { params } = request;
    this.params = params;
    this.beam = params.beam!;
    this.endIds = new Set(endIds(params, loop.vocab));
    this.stopIds = new Set(params.ignoreEos ? params.stopTokenIds : this.endIds);
    this.allowed = params.allowedTokenIds === null ? null : new Set(params.allowedTokenIds);
    this.next = new NBest<Candidate>(this.beam.width, isBefore);
    this.done = new NBest(this.beam.width, isBetter);
    this.scoring = loop.submitScoring(request, candidatesNeeded(params, this.endIds.size, loop.vocab), signal);
    this.record = this.scoring.record;
    this.ended = this.scoring.ended;
    this.events = new EventQueue(() => this.scoring.fail(new ClosedError("nobody reads the beams any more")));
    this.search().catch((error: unknown) => {
      this.scoring.fail(error);
      this.events.fail(error);
    });
  }

  [Symbol.asyncIterator](): AsyncIterator<GenerationEvent> {
    return this.events;
  }

  private async search(): Promise<void> {
    const text = this.params.stop.length === 0 ? null : BeamText.empty(this.params, this.loop.tokenizer);
    const root: Beam = { sequence: this.scoring.root, index: 0, cumulative: 0, last: null, text };
    let live = [root];
    while (live.length > 0) {
      await this.readRows(live);
      live = await this.advance(live);
    }
    const best = this.done.inOrder();
    const empty = { outcome: asItIs(root), finish: NOTHING_PERMITTED, score: Number.NEGATIVE_INFINITY, outputs: 0 };
    while (best.length < this.beam.width) best.push(empty);
    for (const [index, hypothesis] of best.entries()) {
      const choice = this.event(hypothesis, index);
      this.record.outputTokens[index] = choice.tokenIds.length;
      this.record.finishes[index] = choice.finish;
      this.events.push(choice);
      await this.yieldToOthers();
    }
    this.events.end();
    this.scoring.end();
  }

  /** Takes in the likeliest next tokens of every beam. */
  private async readRows(live: readonly Beam[]): Promise<void> {
    const awaited = new Map(live.map((beam) => [beam.sequence, beam]));
    while (awaited.size > 0) {
      const { sequence, row } = await this.scoring.next();
      if (sequence === this.scoring.root && awaited.has(sequence)) {
        const { cachedTokens } = this.record;
        this.events.push({ type: "prompt", cachedTokens, promptLogprobs: this.scoring.promptLogprobs });
      }
      const beam = awaited.get(sequence);
      if (beam === undefined) continue;
      awaited.delete(sequence);
      this.expand(beam, row);
      await this.yieldToOthers();
    }
  }

  /** Lets the event loop turn when this work has taken its share. @throws what has ended the request meanwhile */
  private async yieldToOthers(): Promise<void> {
    while (shouldYield()) await yieldToEventLoop();
    this.scoring.throwIfEnded();
  }

  /** Takes the 2 x width likeliest permitted continuations of a beam as candidates, or as done where they end. */
  private expand(beam: Beam, { topIds, topLogprobs }: RowLogprobs): void {
    const { sequence } = beam;
    const top = this.topOf(topIds, topLogprobs);
    const maxCandidates = 2 * this.beam.width;
    let mayStayLive = true;
    let rank = 0;
    for (let i = 0; i < topIds.length && rank < maxCandidates; i++) {
      const token = topIds[i]!;
      if (!this.isPermitted(sequence, token)) continue;
      const logprob = topLogprobs[i]!;
      const cumulative = beam.cumulative + logprob;
      // Logprobs fall along the row, so behind the first that cannot be chosen only ends are of interest.
      mayStayLive &&= this.mayBeChosen(cumulative, beam.index);
      const finish = mayStayLive || this.stopIds.size > 0 || beam.text !== null ? this.finishOf(beam, token) : null;
      if (!mayStayLive && finish === null) {
        if (this.stopIds.size === 0 && beam.text === null) return;
      } else {
        const last = { before: beam.last, token, logprob, top };
        const candidate = { beam, rank, cumulative, last };
        if (finish === null) this.next.offer(candidate);
        else this.complete(candidate, sequence.outputs + 1, finish);
      }
      rank++;
    }
    if (rank === 0) this.complete(asItIs(beam), sequence.outputs, NOTHING_PERMITTED);
  }

  private topOf(ids: Int32Array, logprobs: Float32Array): TopLogprobs | null {
    const count = this.params.logprobs;
    return count === null ? null : { ids: ids.slice(0, count), logprobs: logprobs.slice(0, count) };
  }

  /** Whether a candidate may be among the beams of the next step. */
  private mayBeChosen(cumulative: number, index: number): boolean {
    const worst = this.next.threshold;
    if (worst === null || cumulative > worst.cumulative) return true;
    return cumulative === worst.cumulative && index < worst.beam.index;
  }

  private isPermitted(sequence: Sequence, token: number): boolean {
    if (this.allowed !== null && !this.allowed.has(token)) return false;
    if (sequence.outputs < this.params.minTokens && this.endIds.has(token)) return false;
    return !this.params.badWords.some((word) => completes(sequence, word, token));
  }

  private finishOf({ sequence, text }: Beam, token: number): Finish | null {
    if (sequence.outputs + 1 < this.params.minTokens) return null;
    const isEnd = this.stopIds.has(token);
    // The text of an end counts only where it is shown; a stop string in it is then what ends the text.
    const isRead = text !== null && (!isEnd || this.params.includeStop);
    const stop = isRead ? text.stopAfter(token) : null;
    if (stop !== null) return { reason: "stop", stopReason: stop };
    return isEnd ? { reason: "stop", stopReason: token } : null;
  }

  private complete(outcome: Outcome, outputs: number, finish: Finish): void {
    const { promptLength } = outcome.beam.sequence;
    const isEnd = outcome.last !== null && outcome.last.token === this.params.eosId;
    const score = this.score(outcome.cumulative, promptLength + outputs - (isEnd ? 1 : 0));
    this.done.offer({ outcome, finish, score, outputs });
  }

  /** The length counts the prompt, without a final end of sequence. */
  private score(cumulative: number, length: number): number {
    return cumulative / length ** this.beam.lengthPenalty;
  }

  /** The beams of the next step, forked off those whose rows have all been read; none when the search is over. */
  private async advance(parents: readonly Beam[]): Promise<Beam[]> {
    const next = this.next.inOrder();
    this.next = new NBest<Candidate>(this.beam.width, isBefore);
    const outputs = parents[0]!.sequence.outputs + 1;
    const isOver = outputs >= this.params.maxTokens;
    if (isOver) for (const candidate of next) this.complete(candidate, outputs, { reason: "length", stopReason: null });
    const chosen = isOver || this.isDecided(next) ? [] : next;

    const forksLeft = new Map<Beam, number>();
    for (const { beam } of chosen) forksLeft.set(beam, (forksLeft.get(beam) ?? 0) + 1);
    for (const parent of parents) {
      if (!forksLeft.has(parent)) this.loop.end(parent.sequence);
      await this.yieldToOthers();
    }
    const live: Beam[] = [];
    for (const [index, candidate] of chosen.entries()) {
      await this.yieldToOthers();
      const { beam: parent } = candidate;
      live.push(this.fork(candidate, index));
      const left = forksLeft.get(parent)! - 1;
      forksLeft.set(parent, left);
      // Its last fork has its pages to itself.
      if (left === 0) this.loop.end(parent.sequence);
    }
    return live;
  }

  /** Whether no live beam can still become one of the best `width` hypotheses. Cumulative logprobs only fall. */
  private isDecided(next: Candidate[]): boolean {
    const best = next[0];
    if (best === undefined) return true;
    const worst = this.done.threshold;
    if (worst === null) return false;
    const { promptLength, length } = best.beam.sequence;
    const bestLength = this.beam.lengthPenalty >= 0 ? promptLength + this.params.maxTokens : length + 1;
    return this.score(best.cumulative, bestLength) <= worst.score;
  }

  private fork({ beam, cumulative, last }: Candidate, index: number): Beam {
    const sequence = this.loop.fork(beam.sequence, index, last.token);
    return { sequence, index, cumulative, last, text: beam.text?.after(last.token) ?? null };
  }

  private event({ outcome, finish, outputs }: Hypothesis, index: number): TokensEvent {
    const tokens = new Array<BeamToken>(outputs);
    let { last } = outcome;
    for (let i = outputs - 1; last !== null; i--, last = last.before) tokens[i] = last;
    // As in vLLM, the id that ends a beam is among its tokens only where stops are shown.
    if (typeof finish.stopReason === "number" && !this.params.includeStop) tokens.pop();
    const { root } = this.scoring;
    const sequence = new Sequence(root.owner, index, root.tokens, null);
    const output = new ChoiceOutput(sequence, this.params, this.loop.tokenizer, false);
    for (const { token, logprob, top } of tokens) {
      sequence.append(token);
      if (output.add({ logprob, temperatureLogprob: Number.NaN, top }) !== null) return output.take(finish);
    }
    output.end(finish);
    return output.take(finish);
  }
}

/** The beam without a further token. */
function asItIs(beam: Beam): Outcome {
  const { cumulative, last } = beam;
  return { beam, rank: 0, cumulative, last };
}

/** Best first; of equal ones the earlier beam's, of one beam's the lower id. */
function isBefore(a: Outcome, b: Outcome): boolean {
  if (a.cumulative !== b.cumulative) return a.cumulative > b.cumulative;
  return a.beam === b.beam ? a.rank < b.rank : a.beam.index < b.beam.index;
}

/** Best first; of equal ones the one that ended earlier, and by itself. */
function isBetter(a: Hypothesis, b: Hypothesis): boolean {
  if (a.score !== b.score) return a.score > b.score;
  if (a.outputs !== b.outputs) return a.outputs < b.outputs;
  const [aRanOut, bRanOut] = [a.finish.reason === "length", b.finish.reason === "length"];
  return aRanOut === bRanOut ? isBefore(a.outcome, b.outcome) : bRanOut;
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

/** The text of one beam so far, as far as stop strings need it. Never changes: what follows a token is another text. */
class BeamText {
  private constructor(
    private readonly decoder: IncrementalDecoder,
    private readonly stops: StopStrings,
    private readonly outputs: number,
    private readonly minTokens: number,
  ) {}

  static empty(params: SamplingSettings, tokenizer: Tokenizer): BeamText {
    const stops = new StopStrings(params.stop, params.includeStop);
    return new BeamText(tokenizer.stream(params), stops, 0, params.minTokens);
  }

  /** The stop string that `token` would complete, or null. */
  stopAfter(token: number): string | null {
    const shown = this.stops.fork().push(this.decoder.fork().push(token), this.outputs + 1 > this.minTokens);
    return typeof shown === "string" ? null : shown.stop;
  }

  after(token: number): BeamText {
    const next = new BeamText(this.decoder.fork(), this.stops.fork(), this.outputs + 1, this.minTokens);
    next.stops.push(next.decoder.push(token), next.outputs > this.minTokens);
    return next;
  }
}
