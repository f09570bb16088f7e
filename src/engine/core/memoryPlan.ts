import { InsufficientMemoryError } from "../../errors.js";

/** Positions per KV page. */
export const PAGE_POSITIONS = 64;

/** Of the memory that weights leave, the share that KV pages may take: training needs the rest. */
const cacheShare = 0.5;

/** Beyond this many bytes more pages are of no use to the sequences that fit a step. */
const cacheCeiling = 4 * 2 ** 30;

export interface MemoryNeeds {
  /** Bytes of all weights. */
  weights: number;
  /** Bytes of one page. */
  page: number;
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
  limits: { contextLength: number; maxSequences: number },
): number {
  const perContext = Math.ceil(limits.contextLength / PAGE_POSITIONS) + 1;
  const minimum = needs.weights + perContext * needs.page;
  if (minimum > budget) {
    const option = needs.weights > budget ? "models" : "contextLength";
    throw new InsufficientMemoryError(`${model} with one full context`, minimum, budget, option);
  }
  const room = Math.min((budget - needs.weights) * cacheShare, cacheCeiling);
  return Math.max(perContext, Math.min(limits.maxSequences * perContext, Math.floor(room / needs.page)));
}
