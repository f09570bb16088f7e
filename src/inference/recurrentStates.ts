// The recurrent states of a model's sequences, for layers that have a state instead of keys and values. Every running
// sequence has a state of its own, which steps move on; copies of some, as they were behind a prefix, are kept as long as
// there is room, so that other sequences with that prefix begin from there.

import { PAGE_SIZE } from "./pageGroups.js";
import { MAX_STEPS_IN_FLIGHT, type Sequence } from "./sequence.js";

const NONE = -1;

/** State `from[i]` is copied to `to[i]`, in order, before the next step runs. */
export interface StateCopies {
  from: number[];
  to: number[];
}

/** All states of one model, by id from 0 on. Of a model without recurrent layers there are none, and none is needed. */
export class RecurrentStates {
  private readonly free: number[];
  /** Of known prefixes, by hash; the least recently used first. */
  private readonly snapshots = new Map<string, number>();
  private copies: StateCopies = { from: [], to: [] };

  constructor(
    readonly count: number,
    /** Of the first `tokens` tokens of a sequence, which must be known. */
    private readonly hashOf: (sequence: Sequence, tokens: number) => string,
  ) {
    this.free = Array.from({ length: count }, (_, i) => count - 1 - i);
  }

  /** Gives a sequence a state of its own, at the cost of a snapshot where it must be; false when sequences hold them all. */
  hold(sequence: Sequence): boolean {
    if (this.count === 0 || sequence.recurrentState >= 0) return true;
    sequence.recurrentState = this.take();
    return sequence.recurrentState >= 0;
  }

  release(sequence: Sequence): void {
    this.publish(sequence);
    if (sequence.recurrentState >= 0) this.free.push(sequence.recurrentState);
    if (sequence.snapshot !== null) this.free.push(sequence.snapshot.state);
    sequence.recurrentState = NONE;
    sequence.snapshot = null;
    sequence.latestSnapshot = null;
  }

  /** Lets `child` go on from where `parent` is; both hold a state. */
  share(parent: Sequence, child: Sequence): void {
    if (this.count > 0) this.copy(parent.recurrentState, child.recurrentState);
  }

  /** Whether a sequence could begin behind so many of its tokens. */
  has(sequence: Sequence, tokens: number): boolean {
    return this.count === 0 || tokens === 0 || this.snapshots.has(this.hashOf(sequence, tokens));
  }

  /** Lets a sequence, which holds a state, begin behind so many of its tokens, of which there is a snapshot. */
  restore(sequence: Sequence, tokens: number): void {
    if (this.count === 0 || tokens === 0) return;
    const hash = this.hashOf(sequence, tokens);
    const state = this.snapshots.get(hash)!;
    this.snapshots.delete(hash);
    this.snapshots.set(hash, state);
    this.copy(state, sequence.recurrentState);
  }

  /** Of the next `chunk` tokens, so many as lead to where a snapshot should be taken: the last whole page of what is known, a branch, the shared prompt. */
  untilSnapshot(sequence: Sequence, chunk: number): number {
    if (this.count === 0 || chunk === 1) return chunk;
    const { computed, length } = sequence;
    const ends = [Math.floor((length - 1) / PAGE_SIZE) * PAGE_SIZE, sequence.branchesAt, sharedPrompt(sequence)];
    return ends.reduce((least, end) => (end > computed ? Math.min(least, end - computed) : least), chunk);
  }

  /**
   * How many tokens may be guessed behind the next one: so few that which step ends the page is known when that one is issued, as it
   * leaves a state to keep.
   */
  roomForGuesses({ computed, pendingFurther }: Sequence): number {
    if (this.count === 0) return Number.POSITIVE_INFINITY;
    const end = (Math.floor(computed / PAGE_SIZE) + 1) * PAGE_SIZE;
    return Math.max(0, end - MAX_STEPS_IN_FLIGHT - (computed + pendingFurther + 1));
  }

  /**
   * After a step has been handed over: keeps the state that it leaves, at the end of a page or of a prompt that further choices
   * share. While it decodes, a sequence has the latest of its states kept only.
   */
  issued(sequence: Sequence): void {
    this.publish(sequence);
    if (this.count === 0 || sequence.snapshot !== null) return;
    const { computed: tokens } = sequence;
    const decodes = tokens > sequence.promptLength;
    // How many tokens a step forces is not known when it is issued.
    if (decodes && sequence.owner.jumpForward) return;
    if (tokens % PAGE_SIZE !== 0 && tokens !== sharedPrompt(sequence)) return;
    if (tokens <= sequence.length && this.has(sequence, tokens)) return;
    if (decodes && sequence.latestSnapshot !== null) this.drop(sequence.latestSnapshot);
    const state = this.take();
    if (state < 0) return;
    this.copy(sequence.recurrentState, state);
    sequence.snapshot = { state, tokens };
    this.publish(sequence);
  }

  /** What gathered since the last call. */
  takeCopies(): StateCopies {
    const { copies } = this;
    this.copies = { from: [], to: [] };
    return copies;
  }

  /** Forgets all snapshots (after a failed step nobody knows what states hold). */
  forgetAll(): void {
    for (const hash of [...this.snapshots.keys()]) this.drop(hash);
  }

  /** Makes a snapshot findable once its tokens are known. */
  private publish(sequence: Sequence): void {
    const { snapshot } = sequence;
    if (snapshot === null || snapshot.tokens > sequence.length) return;
    const hash = this.hashOf(sequence, snapshot.tokens);
    sequence.snapshot = null;
    if (this.snapshots.has(hash)) this.free.push(snapshot.state);
    else this.snapshots.set(hash, snapshot.state);
    if (snapshot.tokens > sequence.promptLength) sequence.latestSnapshot = hash;
  }

  private drop(hash: string): void {
    const state = this.snapshots.get(hash);
    if (state === undefined) return;
    this.snapshots.delete(hash);
    this.free.push(state);
  }

  private take(): number {
    if (this.free.length === 0) {
      const oldest = this.snapshots.keys().next();
      if (!oldest.done) this.drop(oldest.value);
    }
    return this.free.pop() ?? NONE;
  }

  private copy(from: number, to: number): void {
    this.copies.from.push(from);
    this.copies.to.push(to);
  }
}

/** Tokens of a prompt that further choices begin behind: its last one is computed by each. */
export function sharedPrompt({ source, request, promptLength }: Sequence): number {
  return source === null && request.n > 1 ? promptLength - 1 : 0;
}
