// What runs in the next step. There are no phases: every sequence has tokens that are not computed yet, one while it
// decodes, many while its prompt is prefilled. Running sequences come first, decodes before prefill chunks; then
// waiting sequences join while the token budget, the sequence limit and the free pages allow. When pages run out, a
// running sequence gives up its own and is computed again later (preemption by recomputation).

import { PrefillLimit, ServiceOrder } from "./fairness.js";
import { PageGroups } from "./pageGroups.js";
import type { PagePool } from "./pagePool.js";
import { type PageCopies, PageTables } from "./pageTables.js";
import { hashOfTokens, PrefixCache } from "./prefixCache.js";
import { RecurrentStates, sharedPrompt } from "./recurrentStates.js";
import { MAX_DRAFT_ROWS, type Sequence } from "./sequence.js";

export interface SchedulerOptions {
  /** Sequences in one step at most. */
  maxSequences: number;
  /** Tokens in one step at most. */
  tokenBudget: number;
  policy: "fcfs" | "priority";
  /** What follows may be guessed (speculative decoding). Default false. */
  drafts?: boolean;
}

/** One step: `chunk` tokens of each sequence, after the page copies. */
export interface ScheduledStep {
  sequences: Sequence[];
  copies: PageCopies;
}

/** Decides which sequences the next step computes, how many tokens of each, and which pages they hold. */
export class Scheduler {
  /** Both in order of service (fairness.ts). */
  readonly running: Sequence[] = [];
  private waiting: Sequence[] = [];
  /** Times that a sequence has lost its pages before it had ended. */
  preemptions = 0;
  readonly prefixCache: PrefixCache;
  readonly prefillLimit = new PrefillLimit();
  readonly recurrentStates: RecurrentStates;
  private readonly tables: PageTables;
  private readonly order: ServiceOrder;

  constructor(
    private readonly pool: PagePool,
    private readonly options: SchedulerOptions,
    private readonly groups = new PageGroups(),
    /** Recurrent states that the device has; 0 for models without recurrent layers. */
    stateCount = 0,
  ) {
    this.recurrentStates = new RecurrentStates(stateCount, hashOfTokens);
    this.tables = new PageTables(pool, groups, this.recurrentStates);
    this.prefixCache = new PrefixCache(pool, this.tables, groups, this.recurrentStates);
    this.order = new ServiceOrder(options.policy);
  }

  get waitingCount(): number {
    return this.waiting.length;
  }

  /** Queues a sequence that holds no pages. */
  add(sequence: Sequence): void {
    sequence.state = "waiting";
    this.order.insert(this.waiting, sequence);
  }

  /** A sequence that goes on from `parent`: with the parent's pages where it has any, else computed again. */
  addFork(parent: Sequence, fork: Sequence): void {
    fork.admittedBefore = true;
    if (parent.state !== "running" || !this.recurrentStates.hold(fork)) {
      fork.clearPages();
      this.add(fork);
      return;
    }
    this.tables.share(parent, fork, parent.computed);
    this.recurrentStates.share(parent, fork);
    fork.state = "running";
    this.order.insert(this.running, fork);
  }

  /** Ends a sequence, wherever it stands. What its pages hold stays in the cache until they are needed. */
  finish(sequence: Sequence): void {
    if (sequence.state === "running") this.order.remove(this.running, sequence);
    else if (sequence.state === "waiting") this.order.remove(this.waiting, sequence);
    sequence.state = "finished";
    this.prefixCache.publish(sequence);
    this.tables.release(sequence);
  }

  /** The next step, or null when nothing can run before a step in flight has come back. */
  schedule(): ScheduledStep | null {
    for (;;) {
      const step = this.fillStep();
      // Pages of idle sequences may be what their forks lack.
      if (step !== null || this.waiting.length === 0 || !this.takePagesOfIdle()) return step;
    }
  }

  /** After the step has been handed over: its tokens count as computed, and full pages can be shared by later steps. */
  issued({ sequences }: ScheduledStep): void {
    for (const sequence of sequences) {
      sequence.computed += sequence.chunk;
      sequence.inFlight++;
      this.prefixCache.publish(sequence);
      this.recurrentStates.issued(sequence);
    }
  }

  private fillStep(): ScheduledStep | null {
    const { tokenBudget } = this.options;
    const preemptionsBefore = this.preemptions;
    const copies = this.tables.beginStep();
    for (const sequence of this.running) sequence.chunk = 0;
    let budget = this.continueRunning("decode", tokenBudget);
    if (budget < tokenBudget) budget = Math.min(budget, this.prefillLimit.tokens);
    budget = this.continueRunning("prefill", budget);
    // Whoever joined now would take the pages that were just freed for others.
    if (this.preemptions === preemptionsBefore) this.admit(budget);
    const sequences: Sequence[] = [];
    for (const sequence of this.running) if (sequence.chunk > 0) sequences.push(sequence);
    this.limitDrafts(sequences);
    return sequences.length === 0 ? null : { sequences, copies };
  }

  /** Guesses share the rows that take hardly longer than the step's own. */
  private limitDrafts(sequences: readonly Sequence[]): void {
    let tokens = 0;
    for (const { chunk } of sequences) tokens += chunk;
    const limit = this.options.drafts ? Math.max(0, Math.floor((MAX_DRAFT_ROWS - tokens) / sequences.length)) : 0;
    for (const sequence of sequences) {
      sequence.draftLimit = sequence.samples ? Math.min(limit, this.recurrentStates.roomForGuesses(sequence)) : 0;
    }
  }

  /** Gives chunks to the running sequences in order; the tokens that are left of the budget. */
  private continueRunning(phase: "decode" | "prefill", budget: number): number {
    // Preemption takes from the end of `running`, so the bound is read anew.
    for (let i = 0; i < this.running.length && budget > 0; i++) {
      const sequence = this.running[i]!;
      const { uncomputed } = sequence;
      if (uncomputed === 0 || (uncomputed === 1) !== (phase === "decode") || sequence.chunk > 0) continue;
      const chunk = this.recurrentStates.untilSnapshot(sequence, Math.min(uncomputed, budget));
      budget += this.makeRoom(sequence, chunk);
      if (sequence.state !== "running") continue;
      sequence.chunk = chunk;
      budget -= chunk;
    }
    return budget;
  }

  /**
   * Pages for `chunk` more tokens, by preempting others (at worst this one itself). Returns the tokens that these had
   * already been given in this step.
   */
  private makeRoom(sequence: Sequence, chunk: number): number {
    let returned = 0;
    while (!this.tables.reserve(sequence, chunk)) {
      const victim = this.order.preemptionVictim(this.running);
      returned += this.preempt(victim);
      if (victim === sequence) break;
    }
    return returned;
  }

  /** Returns the tokens that the sequence had been given in this step. */
  private preempt(sequence: Sequence): number {
    const { isIdle } = sequence;
    const returned = this.displace(sequence);
    if (isIdle) standAside(sequence);
    else this.add(sequence);
    return returned;
  }

  /**
   * Takes pages and place of a running sequence; where it stands from now on is the caller's matter. Returns as
   * `preempt`.
   */
  private displace(sequence: Sequence): number {
    this.order.remove(this.running, sequence);
    this.tables.release(sequence);
    const returned = sequence.chunk;
    sequence.chunk = 0;
    this.preemptions++;
    return returned;
  }

  /** Takes the pages of idle sequences, the last first, as many as others wait for. False when there is none. */
  private takePagesOfIdle(): boolean {
    const { running, pool } = this;
    const neededPages = Math.min(this.waiting.length, this.options.tokenBudget) * this.groups.count;
    let taken = 0;
    for (let i = running.length - 1; i >= 0 && (taken === 0 || pool.free < neededPages); i--) {
      const sequence = running[i]!;
      if (!sequence.isIdle) continue;
      this.tables.release(sequence);
      standAside(sequence);
      taken++;
    }
    if (taken === 0) return false;
    let kept = 0;
    for (const sequence of running) if (sequence.state === "running") running[kept++] = sequence;
    running.length = kept;
    return true;
  }

  /**
   * Lets waiting sequences join the step, in order; the first ones of requests at the cost of further choices of
   * others.
   */
  private admit(budget: number): void {
    if (budget > 0 && this.waiting.length > 0) this.prefixCache.beginAdmission(this.running);
    let active = 0;
    for (const sequence of this.running) if (!sequence.isIdle) active++;
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
        verdict = hasPlace ? this.tryAdmit(sequence, budget) : "full";
        if (verdict === "full" && sequence.index === 0 && canDisplace) {
          const room = { pages: this.pagesOf(sequence), active, maxSequences: this.options.maxSequences };
          const victims = this.order.displacedBy(sequence, this.running, this.pool, room);
          for (const victim of victims) budget += this.displace(victim);
          // Pages that they were to fill are not waited for.
          if (victims.length > 0) this.prefixCache.beginAdmission(this.running);
          active -= victims.length;
          displaced.push(...victims);
          canDisplace = victims.length > 0;
          if (canDisplace) verdict = this.tryAdmit(sequence, budget);
        }
        isFull ||= verdict === "full";
      }
      if (verdict !== "admitted") {
        this.waiting[kept++] = sequence;
        continue;
      }
      budget -= sequence.chunk;
      sequence.state = "running";
      this.order.insert(this.running, sequence);
      active++;
      this.prefixCache.willFill(sequence);
    }
    if (kept < i) this.waiting.splice(kept, i - kept);
    for (const victim of displaced) this.add(victim);
  }

  /** Pages and a first chunk for a waiting sequence. "later": another sequence is computing what this one shares. */
  private tryAdmit(sequence: Sequence, budget: number): "admitted" | "later" | "full" {
    const { source } = sequence;
    const canShare = source !== null && !sequence.admittedBefore && source.state !== "finished";
    if (canShare && source.computed < source.promptLength) return "later";
    if (!this.recurrentStates.hold(sequence)) return "full";
    if (
      canShare &&
      this.tables.sees(source, source.promptLength - 1) &&
      this.recurrentStates.has(sequence, sharedPrompt(source))
    ) {
      // The last prompt token is computed again: its logits give this choice's first token.
      this.tables.share(source, sequence, sequence.promptLength);
      sequence.computed = sequence.promptLength - 1;
      this.recurrentStates.restore(sequence, sequence.computed);
    } else {
      const matched = this.prefixCache.match(sequence);
      if (matched === null) return this.refuse(sequence, "later");
      // Without room for all of it the sequence would soon be preempted again. Pages that others hold take none.
      let held = 0;
      for (const pages of matched) for (const page of pages) if (page >= 0 && this.pool.isHeld(page)) held++;
      if (this.pagesOf(sequence) - held > this.pool.free) return this.refuse(sequence, "full");
      this.prefixCache.load(sequence, matched);
    }
    const chunk = this.recurrentStates.untilSnapshot(sequence, Math.min(sequence.uncomputed, budget));
    if (!this.tables.reserve(sequence, chunk)) return this.refuse(sequence, "full");
    sequence.chunk = chunk;
    if (!sequence.admittedBefore) {
      sequence.admittedBefore = true;
      if (sequence.source === null) this.prefixCache.count(sequence);
    }
    return "admitted";
  }

  /** Pages that all tokens of a sequence take at most. */
  private pagesOf(sequence: Sequence): number {
    return this.groups.pagesOf(sequence.length, this.options.tokenBudget);
  }

  /** Gives back what the attempt to admit a sequence took. */
  private refuse<T>(sequence: Sequence, verdict: T): T {
    this.tables.release(sequence);
    return verdict;
  }
}

/**
 * An idle sequence without pages stands in no list: it only waits to be finished, and its forks will be computed again.
 */
function standAside(sequence: Sequence): void {
  sequence.state = "waiting";
}
