// Beam search over one prompt: `width` beams advance together, one token a step, ranked by cumulative raw logprob. It
// stands on top of the loop, which scores sequences and forks them.

import { ClosedError } from "../errors.js";
import type { RowLogprobs } from "../runtime/runtime.js";
import type { IncrementalDecoder, Tokenizer } from "../text/index.js";
import { isTurnUsedUp, nextTurn } from "../turns.js";
import { BestOf } from "./bestOf.js";
import { ChoiceOutput } from "./choiceOutput.js";
import { EventQueue } from "./eventQueue.js";
import type { InferenceLoop } from "./inferenceLoop.js";
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

/**
 * Answers a request with the choices that beam search finds, best first, all at the end. Its `params.beam` must be set.
 * @throws as `InferenceLoop.submit`, and so does iterating
 */
export function beamSearch(loop: InferenceLoop, request: GenerationRequest, signal?: AbortSignal): Generation {
  return new BeamSearch(loop, request, signal);
}

class BeamSearch implements Generation {
  readonly record: GenerationRecord;
  readonly ended: Promise<void>;
  private readonly scoring: ScoringRequest;
  private readonly events: EventQueue;
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

  constructor(
    private readonly loop: InferenceLoop,
    request: GenerationRequest,
    signal: AbortSignal | undefined,
  ) {
    const { params } = request;
    this.params = params;
    this.beam = params.beam!;
    this.endIds = new Set(endIds(params, loop.vocab));
    this.stopIds = new Set(params.ignoreEos ? params.stopTokenIds : this.endIds);
    this.allowed = params.allowedTokenIds === null ? null : new Set(params.allowedTokenIds);
    this.next = new BestOf(this.beam.width, isBefore);
    this.done = new BestOf(this.beam.width, isBetter);
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
    let live: Beam[] = [{ sequence: this.scoring.root, place: 0, cumulative: 0, last: null, text }];
    while (live.length > 0) {
      await this.readRows(live);
      live = await this.advance(live);
    }
    for (const [index, hypothesis] of this.done.inOrder().entries()) {
      const choice = this.event(hypothesis, index);
      this.record.outputTokens[index] = choice.tokenIds.length;
      this.record.finishes[index] = choice.finish;
      this.events.push(choice);
      await this.giveTurns();
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
      this.read(beam, row);
      await this.giveTurns();
    }
  }

  /** Lets the event loop turn when this work has taken its share. @throws what has ended the request meanwhile */
  private async giveTurns(): Promise<void> {
    while (isTurnUsedUp()) await nextTurn();
    this.scoring.throwIfEnded();
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

  /** The beams of the next step, forked off those whose rows have all been read; none when the search is over. */
  private async advance(parents: readonly Beam[]): Promise<Beam[]> {
    const next = this.next.inOrder();
    this.next = new BestOf(this.beam.width, isBefore);
    const isOver = parents[0]!.sequence.outputs + 1 >= this.params.maxTokens;
    if (isOver) for (const candidate of next) this.complete(candidate, { reason: "length", stopReason: null });
    const chosen = isOver || this.isDecided(next) ? [] : next;

    const forksLeft = new Map<Beam, number>();
    for (const { beam } of chosen) forksLeft.set(beam, (forksLeft.get(beam) ?? 0) + 1);
    for (const parent of parents) {
      if (!forksLeft.has(parent)) this.loop.end(parent.sequence);
      await this.giveTurns();
    }
    const live: Beam[] = [];
    for (const [place, candidate] of chosen.entries()) {
      await this.giveTurns();
      const { beam: parent } = candidate;
      live.push(this.fork(candidate, place));
      const left = forksLeft.get(parent)! - 1;
      forksLeft.set(parent, left);
      // Its last fork has its pages to itself.
      if (left === 0) this.loop.end(parent.sequence);
    }
    return live;
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

  private fork({ beam, cumulative, drawn }: Candidate, place: number): Beam {
    const sequence = this.loop.fork(beam.sequence, place, drawn.token);
    return { sequence, place, cumulative, last: drawn, text: beam.text?.after(drawn.token) ?? null };
  }

  private event({ candidate, finish, outputs }: Hypothesis, index: number): TokensEvent {
    const drawn = new Array<Drawn>(outputs);
    let one: Drawn | null = candidate.drawn;
    for (let i = outputs - 1; one !== null; i--, one = one.before) drawn[i] = one;
    const { root } = this.scoring;
    const sequence = new Sequence(root.owner, index, root.tokens, null);
    const output = new ChoiceOutput(sequence, this.params, this.loop.tokenizer, false);
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
