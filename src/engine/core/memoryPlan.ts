import { InsufficientMemoryError } from "../../errors.js";
import { PAGE_SIZE, PageGroups } from "../../inference/index.js";

/** Of the memory that weights leave, the share that KV pages may take: training needs the rest. */
const cacheShare = 0.5;

/** Beyond this many bytes more pages are of no use to the sequences that fit a step. */
const cacheCeiling = 4 * 2 ** 30;

export interface MemoryNeeds {
  /** Bytes of all weights. */
  weights: number;
  /** Bytes of one page of every group of layers. */
  page: number;
  /** The windows of these groups, as a device tells them. */
  pageGroups: ArrayLike<number>;
  /** Bytes of one recurrent state; absent or 0: sequences have none. */
  recurrentState?: number;
  /** Of activations, for each token that is trained on at once; absent: it cannot be trained. */
  activationPerToken?: number;
}

/** Pages of every group that a sequence of so many tokens takes, of which at most `chunk` are computed at a time. */
export function pagesOfContext({ pageGroups }: Pick<MemoryNeeds, "pageGroups">, tokens: number, chunk: number): number {
  const groups = new PageGroups(pageGroups);
  // One more: a page that is shared is copied before it is written.
  return Math.ceil(groups.pagesOf(tokens + PAGE_SIZE, chunk) / groups.count);
}

/** A running sequence's, and one that is kept. */
const MIN_RECURRENT_STATES = 2;

/**
 * How many recurrent states to take: for `maxSequences` sequences and as many prefixes, within half of what the cache may
 * have; 0 where sequences have none.
 */
export function planRecurrentStates(needs: MemoryNeeds, budget: number, limits: { maxSequences: number }): number {
  const { recurrentState = 0 } = needs;
  if (recurrentState === 0) return 0;
  const found = Math.floor(cacheRoom(needs, budget) / 2 / recurrentState);
  return Math.max(MIN_RECURRENT_STATES, Math.min(2 * limits.maxSequences, found));
}

function cacheRoom({ weights }: MemoryNeeds, budget: number): number {
  return Math.min((budget - weights) * cacheShare, cacheCeiling);
}

/**
 * How many KV pages to take: enough for `maxSequences` full contexts when the budget (bytes for weights and pages) has
 * room for them, at least one full context.
 * @throws InsufficientMemoryError when that does not fit.
 */
export function planPages(
  model: string,
  needs: MemoryNeeds,
  budget: number,
  limits: { contextLength: number; maxSequences: number; tokenBudget: number },
): number {
  const perContext = pagesOfContext(needs, limits.contextLength, limits.tokenBudget);
  const { recurrentState = 0 } = needs;
  const minimum = needs.weights + perContext * needs.page + MIN_RECURRENT_STATES * recurrentState;
  if (minimum > budget) {
    const option = needs.weights > budget ? "models" : "contextLength";
    throw new InsufficientMemoryError(`${model} with one full context`, minimum, budget, option);
  }
  const room = cacheRoom(needs, budget) - planRecurrentStates(needs, budget, limits) * recurrentState;
  return Math.max(perContext, Math.min(limits.maxSequences * perContext, Math.floor(room / needs.page)));
}
