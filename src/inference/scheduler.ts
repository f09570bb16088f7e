// What runs in the next step. Every sequence needs (known tokens - computed tokens) more; there are no phases. Running
// sequences come first, single tokens before pieces of long prompts, then waiting sequences join while the token
// budget, the sequence limit and the free pages allow. When pages run out, the last in order gives up its own and is
// computed again later. A request's further choices stand behind those who came after it, one for each, and give up to
// half of their places to others: many choices are served together while nobody else asks, and nobody waits for all of
// them.

import { type BlockPool, PAGE_SIZE, PART_SIZE, PARTS_PER_PAGE } from "./blockPool.js";
import type { Sequence } from "./sequence.js";

export interface SchedulerOptions {
  /** Sequences in one step at most. */
  maxSequences: number;
  /** Tokens in one step at most. */
  tokenBudget: number;
  policy: "fcfs" | "priority";
}

/** One step: `runs[i].chunk` tokens of each sequence, after copying pages `copyFrom[i]` to `copyTo[i]`, in order. */
export interface ScheduledStep {
  runs: Sequence[];
  copyFrom: number[];
  copyTo: number[];
}

export class Scheduler {
  /** Both in order of service. */
  readonly running: Sequence[] = [];
  private waiting: Sequence[] = [];
  preemptions = 0;
  /** Prompt tokens looked up in the prefix cache, and found there. */
  cacheQueries = 0;
  cacheHits = 0;
  /** Of a long prompt, tokens in one step at most while other sequences draw: it sets how long they wait. */
  longestPiece = Number.POSITIVE_INFINITY;
  private copyFrom: number[] = [];
  private copyTo: number[] = [];

  constructor(
    private readonly pool: BlockPool,
    private readonly options: SchedulerOptions,
  ) {}

  get waitingCount(): number {
    return this.waiting.length;
  }

  add(sequence: Sequence): void {
    sequence.state = "waiting";
    this.insert(this.waiting, sequence);
  }

  /** A beam that goes on from its parent: with the parent's pages where it has any, else computed again. */
  addBranch(parent: Sequence, branch: Sequence): void {
    branch.admittedBefore = true;
    if (parent.state !== "running") {
      branch.clearBlocks();
      this.add(branch);
      return;
    }
    this.share(parent, branch, parent.computed);
    branch.state = "running";
    this.insert(this.running, branch);
  }

  /** Ends a sequence, wherever it stands. What its pages hold stays in the cache until they are needed. */
  finish(sequence: Sequence): void {
    if (sequence.state === "running") this.remove(this.running, sequence);
    else if (sequence.state === "waiting") this.remove(this.waiting, sequence);
    sequence.state = "finished";
    this.publish(sequence);
    this.releaseBlocks(sequence);
  }

  /** Gives `child` the pages that hold the first `tokens` tokens of `parent`; a page written to later is copied then. */
  private share(parent: Sequence, child: Sequence, tokens: number): void {
    const pages = Math.ceil(tokens / PAGE_SIZE);
    for (let i = 0; i < pages; i++) {
      const page = parent.blocks[i]!;
      this.pool.retain(page);
      child.addBlock(page);
    }
    child.computed = tokens;
  }

  /** The next step, or null when nothing can run before a step in flight has come back. */
  schedule(): ScheduledStep | null {
    for (;;) {
      const step = this.fill();
      // Pages held by beams that wait for their siblings may be what the siblings lack.
      if (step !== null || this.waiting.length === 0 || !this.parkIdleBeams()) return step;
    }
  }

  private fill(): ScheduledStep | null {
    let budget = this.options.tokenBudget;
    const preemptionsBefore = this.preemptions;
    this.copyFrom = [];
    this.copyTo = [];
    for (const sequence of this.running) sequence.chunk = 0;
    const whole = budget;
    budget = this.extendRunning(budget, true);
    if (budget < whole) budget = Math.min(budget, this.longestPiece);
    budget = this.extendRunning(budget, false);
    if (this.preemptions === preemptionsBefore) this.admit(budget);
    const runs: Sequence[] = [];
    for (const sequence of this.running) if (sequence.chunk > 0) runs.push(sequence);
    return runs.length === 0 ? null : { runs, copyFrom: this.copyFrom, copyTo: this.copyTo };
  }

  /** After the step has been handed over: its tokens count as computed, and full pages can be shared by later steps. */
  issued(step: ScheduledStep): void {
    for (const sequence of step.runs) {
      sequence.computed += sequence.chunk;
      sequence.inFlight++;
      this.publish(sequence);
    }
  }

  private extendRunning(budget: number, singles: boolean): number {
    // Preemption takes from the end of `running`, so the bound is read anew.
    for (let i = 0; i < this.running.length && budget > 0; i++) {
      const sequence = this.running[i]!;
      const wanted = sequence.wanted;
      if (wanted === 0 || (wanted === 1) !== singles || sequence.chunk > 0) continue;
      const chunk = Math.min(wanted, budget);
      const lost = this.makeRoom(sequence, chunk);
      budget += lost;
      if (sequence.state !== "running") continue;
      sequence.chunk = chunk;
      budget -= chunk;
    }
    return budget;
  }

  /**
   * Pages for `chunk` more tokens, at the cost of the last sequences in order (at worst of this one itself). Returns the
   * tokens that victims had already been given in this step.
   */
  private makeRoom(sequence: Sequence, chunk: number): number {
    let lost = 0;
    while (!this.reserve(sequence, chunk)) {
      const victim = this.lastToServe();
      lost += this.preempt(victim);
      if (victim === sequence) break;
    }
    return lost;
  }

  /** The running sequence that gives up its pages first: the last in order, but of further choices while these are many. */
  private lastToServe(): Sequence {
    const { running } = this;
    const last = running[running.length - 1]!;
    if (last.index > 0 || isIdleBeam(last)) return last;
    const further = this.furtherChoices(last);
    return further.length > running.length / 2 ? further.at(-1)! : last;
  }

  /** The running further choices that may give way to `other`, in order. */
  private furtherChoices(other: Sequence): Sequence[] {
    return this.running.filter((one) => one.index > 0 && !isIdleBeam(one) && !this.isMoreUrgent(one, other));
  }

  /** Pages for `chunk` more tokens, the first of them this sequence's alone; false, with nothing lost, without enough. */
  private reserve(sequence: Sequence, chunk: number): boolean {
    const { pool } = this;
    const first = Math.floor(sequence.computed / PAGE_SIZE);
    const needed = Math.ceil((sequence.computed + chunk) / PAGE_SIZE);
    const shared = first < sequence.blocks.length && pool.isShared(sequence.blocks[first]!);
    if (needed - sequence.blocks.length + (shared ? 1 : 0) > pool.free) return false;
    if (shared) {
      const from = sequence.blocks[first]!;
      const to = pool.take();
      pool.release(from);
      sequence.replaceBlock(first, to);
      // At the start of a page nothing in it is kept.
      if (sequence.computed % PAGE_SIZE > 0) {
        this.copyFrom.push(from);
        this.copyTo.push(to);
      }
    }
    while (sequence.blocks.length < needed) sequence.addBlock(pool.take());
    const wished = Math.ceil(sequence.roomWished(chunk) / PAGE_SIZE);
    while (sequence.blocks.length < wished && pool.free > 0) sequence.addBlock(pool.take());
    return true;
  }

  /** Returns the tokens that the sequence had been given in this step. */
  private preempt(sequence: Sequence): number {
    const isIdle = isIdleBeam(sequence);
    const lost = this.displace(sequence);
    if (isIdle) park(sequence);
    else this.add(sequence);
    return lost;
  }

  /** Takes pages and place of a running sequence; where it stands from now on is the caller's matter. Returns as `preempt`. */
  private displace(sequence: Sequence): number {
    this.remove(this.running, sequence);
    this.releaseBlocks(sequence);
    const lost = sequence.chunk;
    sequence.chunk = 0;
    this.preemptions++;
    return lost;
  }

  /**
   * Takes the pages of beams whose row has been reported, the last first, as many as others wait for. False when there is
   * none.
   */
  private parkIdleBeams(): boolean {
    const { running, pool } = this;
    const wanted = Math.min(this.waiting.length, this.options.tokenBudget);
    let parked = 0;
    for (let i = running.length - 1; i >= 0 && (parked === 0 || pool.free < wanted); i--) {
      const idle = running[i]!;
      if (!isIdleBeam(idle)) continue;
      this.releaseBlocks(idle);
      park(idle);
      parked++;
    }
    if (parked === 0) return false;
    let kept = 0;
    for (const sequence of running) if (sequence.state === "running") running[kept++] = sequence;
    running.length = kept;
    return true;
  }

  private admit(budget: number): void {
    /** Pages that this step fills: who needs one of them waits for a step rather than computing it twice. */
    const filling = new Set<string>();
    if (budget > 0 && this.waiting.length > 0) {
      for (const sequence of this.running) if (sequence.chunk > 1) fills(sequence, filling);
    }
    let active = 0;
    for (const sequence of this.running) if (!isIdleBeam(sequence)) active++;
    const displaced: Sequence[] = [];
    let isFull = false;
    let canDisplace = true;
    let kept = 0;
    let i = 0;
    for (; i < this.waiting.length && budget > 0 && (!isFull || canDisplace); i++) {
      const sequence = this.waiting[i]!;
      let verdict: "admitted" | "later" | "full" = "later";
      if (sequence.inFlight === 0) {
        const hasPlace: boolean = !isFull && active < this.options.maxSequences;
        verdict = hasPlace ? this.tryAdmit(sequence, budget, filling) : "full";
        if (verdict === "full" && sequence.index === 0 && canDisplace) {
          const victims = this.victimsOf(sequence, active);
          for (const victim of victims) budget += this.displace(victim);
          active -= victims.length;
          displaced.push(...victims);
          canDisplace = victims.length > 0;
          if (canDisplace) verdict = this.tryAdmit(sequence, budget, filling);
        }
        isFull ||= verdict === "full";
      }
      if (verdict !== "admitted") {
        this.waiting[kept++] = sequence;
        continue;
      }
      budget -= sequence.chunk;
      sequence.state = "running";
      this.insert(this.running, sequence);
      active++;
      if (sequence.chunk > 1) fills(sequence, filling);
    }
    if (kept < i) this.waiting.splice(kept, i - kept);
    for (const victim of displaced) this.add(victim);
  }

  /**
   * The further choices, the last in order first, that make room when they go back to the waiting; none when the room
   * would not do. Whoever asks is served beside requests for many choices: of `active` sequences, further choices keep
   * half; of that half only those behind `sequence` in order give way.
   */
  private victimsOf(sequence: Sequence, active: number): Sequence[] {
    const further = this.furtherChoices(sequence);
    const mostPages = Math.ceil(sequence.length / PAGE_SIZE);
    let pages = this.pool.free;
    let places = this.options.maxSequences - active;
    const victims: Sequence[] = [];
    while (pages < mostPages || places < 1) {
      const victim = further.pop();
      if (victim === undefined) return [];
      if (further.length + 1 <= active / 2 && !this.before(sequence, victim)) return [];
      victims.push(victim);
      for (const page of victim.blocks) if (!this.pool.isShared(page)) pages++;
      places++;
    }
    return victims;
  }

  private tryAdmit(sequence: Sequence, budget: number, filling: Set<string>): "admitted" | "later" | "full" {
    const { source } = sequence;
    if (source !== null && !sequence.admittedBefore && source.state !== "finished") {
      if (source.computed < source.promptLength) return "later";
      // The last prompt token is computed again: its logits give this choice's first token.
      this.share(source, sequence, sequence.promptLength);
      sequence.computed = sequence.promptLength - 1;
    } else {
      const found = this.lookUp(sequence, filling);
      if (found === null) return "later";
      // Without room for all of it the sequence would soon be preempted again.
      const pages = Math.ceil(sequence.length / PAGE_SIZE);
      const taken = found.reduce((count, page) => count + (this.pool.isHeld(page) ? 0 : 1), 0);
      if (pages - found.length + taken > this.pool.free) return "full";
      for (const page of found) {
        this.pool.retain(page);
        sequence.addBlock(page);
      }
      sequence.computed = found.length * PAGE_SIZE;
      this.copyParts(sequence);
    }
    const chunk = Math.min(sequence.wanted, budget);
    if (!this.reserve(sequence, chunk)) {
      this.releaseBlocks(sequence);
      return "full";
    }
    sequence.chunk = chunk;
    if (!sequence.admittedBefore) {
      sequence.admittedBefore = true;
      if (sequence.source === null) {
        sequence.cachedTokens = sequence.computed;
        this.cacheQueries += sequence.promptLength;
        this.cacheHits += sequence.computed;
      }
    }
    return "admitted";
  }

  /** Cached pages of the longest known beginning, the last token left out; null when the next page is just being filled. */
  private lookUp(sequence: Sequence, filling: Set<string>): number[] | null {
    const found: number[] = [];
    if (!sequence.origin.useCache) return found;
    const most = Math.floor((sequence.length - 1) / PAGE_SIZE);
    for (let i = 0; i < most; i++) {
      const hash = sequence.hashOfPage(i);
      const page = this.pool.find(hash);
      if (page < 0) return filling.has(hash) ? null : found;
      found.push(page);
    }
    return found;
  }

  /** Begins the page behind the cached ones with a copy of a cached page that begins as it does. */
  private copyParts(sequence: Sequence): void {
    const { pool } = this;
    if (!sequence.origin.useCache) return;
    const first = sequence.blocks.length * PARTS_PER_PAGE;
    const most = Math.min(PARTS_PER_PAGE - 1, Math.floor((sequence.length - 1) / PART_SIZE) - first);
    for (let parts = most; parts > 0; parts--) {
      const from = pool.find(sequence.hashOfPart(first + parts - 1));
      if (from < 0) continue;
      pool.retain(from);
      const to = pool.take();
      pool.release(from);
      if (to < 0) return;
      sequence.addBlock(to);
      sequence.computed += parts * PART_SIZE;
      this.copyFrom.push(from);
      this.copyTo.push(to);
      return;
    }
  }

  private publish(sequence: Sequence): void {
    const full = sequence.newlyFull();
    if (full === null) return;
    for (let i = full[0]; i < full[1]; i++) {
      this.pool.publish(sequence.blocks[Math.floor(i / PARTS_PER_PAGE)]!, sequence.hashOfPart(i));
    }
  }

  /** The end of the sequence first, so that what others are likelier to share is evicted last. */
  private releaseBlocks(sequence: Sequence): void {
    for (let i = sequence.blocks.length - 1; i >= 0; i--) this.pool.release(sequence.blocks[i]!);
    sequence.clearBlocks();
  }

  private insert(list: Sequence[], sequence: Sequence): void {
    list.splice(this.placeBehind(list, sequence), 0, sequence);
  }

  private remove(list: Sequence[], sequence: Sequence): void {
    // Those of equal order (a beam and its branch) stand side by side.
    for (let at = this.placeBehind(list, sequence) - 1; at >= 0; at--) {
      if (list[at] === sequence) {
        list.splice(at, 1);
        return;
      }
      if (this.before(list[at]!, sequence)) return;
    }
  }

  /** Where in an ordered list those begin that come after `sequence`. */
  private placeBehind(list: Sequence[], sequence: Sequence): number {
    let from = 0;
    let to = list.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.before(sequence, list[middle]!)) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  private isMoreUrgent(a: Sequence, b: Sequence): boolean {
    return this.options.policy === "priority" && a.origin.priority < b.origin.priority;
  }

  private before(a: Sequence, b: Sequence): boolean {
    if (this.isMoreUrgent(a, b)) return true;
    if (this.isMoreUrgent(b, a)) return false;
    // Choice i of a request counts as if it had come i requests later.
    const [turnOfA, turnOfB] = [a.origin.arrival + a.index, b.origin.arrival + b.index];
    return turnOfA === turnOfB ? a.index < b.index : turnOfA < turnOfB;
  }
}

/** A beam whose row has been reported: it only holds pages, for its branches. */
function isIdleBeam(sequence: Sequence): boolean {
  return sequence.beamCandidates > 0 && sequence.wanted === 0 && sequence.inFlight === 0;
}

/** An idle beam without pages stands in no list: it only waits to be finished, and its branches will be computed again. */
function park(sequence: Sequence): void {
  sequence.state = "waiting";
}

/** The pages that the chunk given to `sequence` completes. */
function fills(sequence: Sequence, filling: Set<string>): void {
  const full = Math.floor(Math.min(sequence.computed + sequence.chunk, sequence.length) / PAGE_SIZE);
  for (let i = Math.floor(sequence.computed / PAGE_SIZE); i < full; i++) filling.add(sequence.hashOfPage(i));
}
