/** FNV-1a over UTF-16 code units, finished with a mixing step: 32 unsigned bits that depend on the text alone. */
export function hashText(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** One item in ten is kept out of training; which ones depends on the item's text alone, never on a seed. */
export function isHeldOut(item: string): boolean {
  return hashText(`held-out:${item}`) % 10 === 0;
}

/** Mulberry32: a counter-like 32-bit generator, the same sequence on every machine. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** Uniform integer in [low, high], both included. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.next() * items.length)]!;
  }

  /** An item with probability proportional to its share. */
  weighted<T extends { share: number }>(items: readonly T[]): T {
    let total = 0;
    for (const item of items) total += item.share;
    let at = this.next() * total;
    for (const item of items) {
      at -= item.share;
      if (at < 0) return item;
    }
    return items[items.length - 1]!;
  }

  /** A new array in random order (Fisher-Yates). */
  shuffled<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.integer(0, i);
      [out[i], out[j]] = [out[j]!, out[i]!];
    }
    return out;
  }
}
