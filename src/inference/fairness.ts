// Who comes first and who gives way, and how much prefill may delay those who decode. Requests are served in order of arrival, or of priority. The choices of a
// request after its first (its further choices: index > 0) count as if they had arrived that many requests later,
// and give up to half of their places to other requests: many choices run together while nobody else asks, and
// nobody waits for all of them.

import type { PagePool } from "./pagePool.js";
import type { Sequence } from "./sequence.js";

/** Seconds that a step with decoding sequences in it should take at most: they wait so long for their next token. */
const TARGET_STEP_SECONDS = 0.1;
/** Prefill is not limited to fewer tokens: matrix products of few rows use the machine badly. */
const MIN_PREFILL_TOKENS = 64;

/** How many prompt tokens a step may hold beside decoding sequences. Results do not depend on it. */
export class PrefillLimit {
  tokens = Number.POSITIVE_INFINITY;
  private secondsPerToken = 0;

  /** Learns from a step of `tokens` that took `seconds`; small ones say nothing of how fast prefill is. */
  observe(tokens: number, seconds: number): void {
    if (tokens < MIN_PREFILL_TOKENS) return;
    const perToken = seconds / tokens;
    // A running mean: other work of the machine comes and goes.
    this.secondsPerToken = this.secondsPerToken === 0 ? perToken : 0.75 * this.secondsPerToken + 0.25 * perToken;
    this.tokens = Math.max(MIN_PREFILL_TOKENS, Math.floor(TARGET_STEP_SECONDS / this.secondsPerToken));
  }
}

/** The order of service, the lists kept in it, and who makes room when there is none. */
export class ServiceOrder {
  constructor(private readonly policy: "fcfs" | "priority") {}

  insert(list: Sequence[], sequence: Sequence): void {
    list.splice(this.placeBehind(list, sequence), 0, sequence);
  }

  remove(list: Sequence[], sequence: Sequence): void {
    // Those of equal order (a sequence and its fork) stand side by side.
    for (let at = this.placeBehind(list, sequence) - 1; at >= 0; at--) {
      if (list[at] === sequence) {
        list.splice(at, 1);
        return;
      }
      if (this.precedes(list[at]!, sequence)) return;
    }
  }

  /**
   * The running sequence that gives up its pages first: the last in order, but of further choices while these are many.
   */
  preemptionVictim(running: readonly Sequence[]): Sequence {
    const last = running[running.length - 1]!;
    if (last.index > 0 || last.isIdle) return last;
    const further = this.furtherChoices(running, last);
    return further.length > running.length / 2 ? further.at(-1)! : last;
  }

  /**
   * The running further choices, the last in order first, that go back to the waiting for `sequence`, so that there is room
   * for it among `maxSequences` and for its `pages` in the pool; none when the room would not do. Of `active` sequences
   * (those not idle) and this one, further choices keep half, as in `preemptionVictim`, or two would drive each other out
   * for ever; of that half only those behind `sequence` in order give way.
   */
  displacedBy(
    sequence: Sequence,
    running: readonly Sequence[],
    pool: PagePool,
    { pages, active, maxSequences }: { pages: number; active: number; maxSequences: number },
  ): Sequence[] {
    const further = this.furtherChoices(running, sequence);
    let freePages = pool.free;
    let freePlaces = maxSequences - active;
    const displaced: Sequence[] = [];
    while (freePages < pages || freePlaces < 1) {
      const candidate = further.pop();
      if (candidate === undefined) return [];
      if (further.length + 1 <= (active + 1) / 2 && !this.precedes(sequence, candidate)) return [];
      displaced.push(candidate);
      for (const page of candidate.pageTable) if (page >= 0 && !pool.isShared(page)) freePages++;
      freePlaces++;
    }
    return displaced;
  }

  /** The running further choices that may give way to `other`, in order. */
  private furtherChoices(running: readonly Sequence[], other: Sequence): Sequence[] {
    return running.filter((one) => one.index > 0 && !one.isIdle && !this.isMoreUrgent(one, other));
  }

  /** Where in an ordered list those begin that come after `sequence`. */
  private placeBehind(list: readonly Sequence[], sequence: Sequence): number {
    let from = 0;
    let to = list.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.precedes(sequence, list[middle]!)) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  private isMoreUrgent(a: Sequence, b: Sequence): boolean {
    return this.policy === "priority" && a.request.priority < b.request.priority;
  }

  private precedes(a: Sequence, b: Sequence): boolean {
    if (this.isMoreUrgent(a, b)) return true;
    if (this.isMoreUrgent(b, a)) return false;
    // Choice i of a request counts as if it had come i requests later.
    const [arrivalOfA, arrivalOfB] = [a.owner.arrival + a.index, b.owner.arrival + b.index];
    return arrivalOfA === arrivalOfB ? a.index < b.index : arrivalOfA < arrivalOfB;
  }
}
