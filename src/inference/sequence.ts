// A sequence: its tokens, how many of them are computed, and the pages that hold their keys and values.

import type { Guesses, RowLogprobs, StepSequence } from "../runtime/runtime.js";
import { PAGE_SIZE } from "./pageGroups.js";
import type { GenerationRecord, GenerationRequest, TokenLogprobs } from "./request.js";

export type SequenceState = "waiting" | "running" | "finished";

/** While the device computes one step, the tokens of the one before are dealt with. */
export const MAX_STEPS_IN_FLIGHT = 2;

/** A copy of a sequence's recurrent state behind its first `tokens` tokens, which need not all be known yet. */
export interface Snapshot {
  state: number;
  tokens: number;
}

/** What a step has sampled for a sequence. */
export interface SampledTokens {
  /** -1: no token was permitted, which ends the sequence. */
  token: number;
  /** Taken after it, since the grammar permitted no other. */
  forced: Int32Array;
  logprobs: TokenLogprobs;
}

/** What a sequence knows of the request under way that it belongs to (RequestState): that is told what steps have computed. */
export interface SequenceOwner {
  readonly request: GenerationRequest;
  /** Order of arrival over all requests of the loop. */
  readonly arrival: number;
  /** Of the first choice; choice i samples with seed + i. */
  readonly seed: bigint;
  /** Tokens that the grammar forces are taken together with the one sampled before them (jump-forward decoding). */
  readonly jumpForward: boolean;
  readonly record: GenerationRecord;
  /** Those that have not ended. */
  readonly sequences: Set<Sequence>;
  /** Choices that have no sequence yet: they get one as others end. */
  readonly choicesLeft: number;
  /** Makes the next one's sequence; null: there is none left. */
  nextChoice(): Sequence | null;
  /** A token was sampled; true when the sequence ends with it. */
  sampled(sequence: Sequence, tokens: SampledTokens): boolean;
  /**
   * Hidden states have come, [count][hidden]: of the tokens that were computed from position `from` on ("all"), or of the last
   * one. Only of requests that want them; true when the sequence ends with it.
   */
  readHiddenStates?(sequence: Sequence, from: number, states: Float32Array): boolean;
  /** Logprobs were computed at the positions from `from` on, a row for each. The loop waits for the promise. */
  scored(sequence: Sequence, from: number, rows: readonly RowLogprobs[]): Promise<void> | null;
  /** Ends the request with an error. */
  fail(error: unknown): void;
}

/** Forced tokens at most after one sampled token. */
const MAX_FORCED_TOKENS = 31;
/** Tokens of a prompt's end that are told apart from others like them: more are not compared. */
const PROMPT_END = 32;
/** Rows that a step may have with guesses in it: more of them take longer wherever they are computed. */
export const MAX_DRAFT_ROWS = 16;

/**
 * What is computed as one row of steps: a choice, or a beam. Scheduler and loop keep its state; it acts on nothing
 * itself.
 */
export class Sequence {
  state: SequenceState = "waiting";
  /** Prompt and outputs; only the first `length` count. */
  tokens: Int32Array;
  length: number;
  readonly promptLength: number;
  readonly request: GenerationRequest;
  /** Tokens whose keys and values are in the cache, or will be once the steps already issued have run. */
  computed = 0;
  /** Tokens sampled by steps in flight: only the device knows them so far. */
  pending = 0;
  /** Tokens at most that come along with those: guessed before them, or forced after them. */
  pendingFurther = 0;
  /** Guesses at most that the step being built may compute of it. */
  draftLimit = 0;
  /** Steps in flight that hold a row of this sequence. */
  inFlight = 0;
  /** Sampling state on the device; -1: none. */
  slot = -1;
  /** Whether the slot has been given the prompt to guess from. */
  private knowsPrompt = false;
  /** Prompt tokens that the first admission found in the cache. */
  cachedTokens = 0;
  /** Whether it has run before, or is the fork of one that has. */
  admittedBefore = false;
  /** Tokens that the step being built computes: a chunk of the prompt, or one (decode). */
  chunk = 0;

  /** Of prefixes, as far as they have been needed. This and the next are kept by the prefix cache. */
  readonly prefixHashes: string[] = [];
  /** Prefix hashes under which its pages can be found. */
  publishedHashes = 0;

  /** Its recurrent state, behind `computed` tokens once the steps issued have run; -1: none. This and the next three are kept by RecurrentStates. */
  recurrentState = -1;
  /** A copy of that which is not findable yet. */
  snapshot: Snapshot | null = null;
  /** The latest copy of a state behind some of its outputs. */
  latestSnapshot: string | null = null;
  /** Tokens that others began with as well, of which no state was kept; 0: none. */
  branchesAt = 0;

  private pages = new Int32Array(0);
  /** Blocks (of PAGE_SIZE positions) that it has pages for. */
  blockCount = 0;
  private pageView: Int32Array = this.pages;

  constructor(
    readonly owner: SequenceOwner,
    /** Of the choice; of a beam its rank. */
    readonly index: number,
    /** Not written to: choices of one request share it. */
    prompt: Int32Array,
    /** The choice whose prompt pages this one shares, once they are computed. */
    readonly source: Sequence | null,
    /** 0: it samples. Otherwise it samples nothing: so many of the likeliest tokens to follow its last are reported. */
    readonly candidates = 0,
    /** Other than "none": it samples nothing, and these hidden states of its prompt are read. */
    readonly hiddenStates: "none" | "last" | "all" = "none",
  ) {
    this.request = owner.request;
    this.promptLength = prompt.length;
    this.length = prompt.length;
    this.tokens = prompt;
  }

  /** One that goes on from here with one more token; it holds no pages yet. */
  fork(index: number, token: number): Sequence {
    const fork = new Sequence(this.owner, index, this.tokens.subarray(0, this.promptLength), null, this.candidates);
    fork.tokens = new Int32Array(this.length + 1);
    fork.tokens.set(this.tokens.subarray(0, this.length));
    fork.tokens[this.length] = token;
    fork.length = this.length + 1;
    for (const hash of this.prefixHashes) fork.prefixHashes.push(hash);
    fork.publishedHashes = this.publishedHashes;
    return fork;
  }

  get outputs(): number {
    return this.length - this.promptLength;
  }

  /** Tokens that the next step could compute. */
  get uncomputed(): number {
    if (this.hiddenStates !== "none") return this.length - this.computed;
    if (this.candidates === 0 && this.outputs + this.pending >= this.request.params.maxTokens) return 0;
    const left = this.length + this.pending - this.computed;
    // Candidates are reported of one row, so the last token is computed alone.
    return this.candidates > 0 && left > 1 ? left - 1 : left;
  }

  /** Its candidates have been reported: it only holds pages, for its forks. */
  get isIdle(): boolean {
    return this.candidates > 0 && this.uncomputed === 0 && this.inFlight === 0;
  }

  get samples(): boolean {
    return this.candidates === 0 && this.hiddenStates === "none";
  }

  /** Positions that pages should be held for when `chunk` more tokens are computed: others may come along. */
  positionsWithLookahead(chunk: number): number {
    const known = this.computed + chunk;
    const { jumpForward } = this.owner;
    if (!jumpForward && this.draftLimit === 0) return known;
    return Math.min(
      known + MAX_STEPS_IN_FLIGHT * (1 + this.draftLimit + (jumpForward ? MAX_FORCED_TOKENS : 0)),
      this.promptLength + this.request.params.maxTokens,
    );
  }

  /** Of `most` tokens that may come along with the one sampled by the step being built, those within `maxTokens` and the pages held. */
  private further(most: number): number {
    if (most === 0) return 0;
    const outputs = this.outputs + this.pending + this.pendingFurther + 1;
    const held = this.blockCount * PAGE_SIZE - this.promptLength;
    return Math.max(0, Math.min(most, Math.min(this.request.params.maxTokens, held) - outputs));
  }

  /** Of the `allowed` tokens that might have come along with a sampled one, so many did. */
  settleFurther(kept: number, forced: number, allowed: number): void {
    this.pendingFurther -= allowed;
    // Unless the pages have been given up meanwhile, the step has computed the guesses that it kept, and one in flight that goes on
    // from there computes what was forced.
    if (this.state !== "running") return;
    this.computed += kept;
    if (this.inFlight > 0) this.computed += forced;
  }

  /** A draw is to come once more, from a token that is computed again: by the step in flight, if one goes on from there. */
  putOff(): void {
    if (this.state === "running") this.computed--;
  }

  append(token: number): void {
    if (this.length === this.tokens.length) {
      const larger = new Int32Array(this.tokens.length + Math.max(64, this.outputs));
      larger.set(this.tokens);
      this.tokens = larger;
    }
    this.tokens[this.length++] = token;
  }

  /** Page ids in order of position, of each block those of all groups; -1: seen no more. Copied by whoever keeps it. */
  get pageTable(): Int32Array {
    return this.pageView;
  }

  /** Pages of the next block, one of each group. */
  addBlock(pages: ArrayLike<number>): void {
    const from = this.pageView.length;
    const to = from + pages.length;
    if (to > this.pages.length) {
      const capacity = (Math.ceil(this.length / PAGE_SIZE) + 2) * pages.length;
      const larger = new Int32Array(Math.max(capacity, this.pages.length * 2));
      larger.set(this.pages);
      this.pages = larger;
    }
    this.pages.set(pages, from);
    this.pageView = this.pages.subarray(0, to);
    this.blockCount++;
  }

  /** By its place in the table. */
  replacePage(at: number, page: number): void {
    this.pages[at] = page;
  }

  clearPages(): void {
    this.blockCount = 0;
    this.pageView = this.pages.subarray(0, 0);
    this.publishedHashes = 0;
    this.computed = 0;
  }

  /**
   * What the device is given of this sequence in the step being built: `chunk` tokens from `computed` on. One object, reused
   * from step to step: the runtime copies it when the step is issued.
   */
  row(): Required<StepSequence> {
    const { stepRow: row, request, chunk } = this;
    const from = this.computed;
    const to = from + chunk;
    const last = to === this.length + this.pending;
    row.slot = this.slot;
    row.tokens = from < this.length ? this.tokens.subarray(from, to) : null;
    row.position = from;
    row.blocks = this.pageView;
    row.recurrent = this.recurrentState;
    row.adapter = request.adapter;
    row.sample = last && this.samples;
    row.outputIndex = this.outputs + this.pending;
    const further = row.sample ? this.further(this.draftLimit + (this.owner.jumpForward ? MAX_FORCED_TOKENS : 0)) : 0;
    row.maxDrafts = row.tokens === null ? Math.min(this.draftLimit, further) : 0;
    row.lookup = null;
    if (row.maxDrafts > 0 && !this.knowsPrompt) {
      row.lookup = this.lookup();
      this.knowsPrompt = true;
    }
    row.maxForced = this.owner.jumpForward ? Math.min(MAX_FORCED_TOKENS, further - row.maxDrafts) : 0;
    row.promptLogprobs = -1;
    row.next = null;
    row.states = this.hiddenStates === "all" ? chunk : this.hiddenStates === "last" && last ? 1 : 0;
    const promptLogprobs = this.index === 0 ? request.params.promptLogprobs : null;
    if (last && this.candidates > 0) {
      row.promptLogprobs = this.candidates;
      row.next = NO_NEXT;
    } else if (promptLogprobs !== null && from < this.promptLength - 1 && this.outputs === 0) {
      row.promptLogprobs = promptLogprobs;
      row.next = new Int32Array(chunk).fill(-1);
      row.next.set(this.tokens.subarray(from + 1, Math.min(to + 1, this.promptLength)));
    }
    return row;
  }

  /** What guesses are taken from: the prompt; and behind it what is predicted to come, followed by how the prompt ends, as it really does. */
  private lookup(): Int32Array {
    const prompt = this.tokens.subarray(0, this.promptLength);
    const { prediction = [] } = this.request;
    if (prediction.length === 0) return prompt;
    const end = prompt.subarray(-PROMPT_END);
    const all = new Int32Array(prompt.length + prediction.length + end.length);
    all.set(prompt);
    all.set(prediction, prompt.length);
    all.set(end, prompt.length + prediction.length);
    return all;
  }

  /** Those that stand in the prediction. */
  countGuesses({ count, place, kept }: Guesses): void {
    const { prediction } = this.owner.record;
    if (prediction === null) return;
    const from = this.promptLength;
    const to = from + this.request.prediction!.length;
    const inside = (guesses: number) => Math.max(0, Math.min(place + guesses, to) - Math.max(place, from));
    prediction.accepted += inside(kept.length);
    prediction.rejected += inside(count) - inside(kept.length);
  }

  private readonly stepRow: Required<StepSequence> = {
    slot: -1,
    tokens: null,
    position: 0,
    blocks: new Int32Array(0),
    recurrent: -1,
    adapter: 0,
    sample: false,
    outputIndex: 0,
    maxForced: 0,
    maxDrafts: 0,
    lookup: null,
    promptLogprobs: -1,
    next: null,
    states: 0,
  };
}

const NO_NEXT = Int32Array.of(-1);
