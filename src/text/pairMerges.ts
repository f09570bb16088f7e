// The merges of byte-pair encoding over typed arrays: a long word in a small part of the time that objects and texts take.

/** A vocabulary's merges, first merge first; of equal ones the last counts. */
export type Merges = readonly (readonly [left: string, right: string])[];

/** Marks a slot or a neighbour that is not there. */
const NONE = -1;
/** In a key of the heap a merge's rank stands above the position. */
const POSITIONS = 2 ** 32;

/**
 * Symbols are numbers: of what merges name, an index of `names`; of any other character, -1 - its code point.
 * A table with open addressing maps pairs of symbols to the merge's rank and the symbol that it gives.
 */
export class PairMerges {
  private readonly names: string[] = [];
  private readonly symbols = new Map<string, number>();
  private readonly mask: number;
  /** Four numbers a slot: left, right, rank, merged. */
  private readonly slots: Int32Array;

  constructor(merges: Merges) {
    const size = 2 ** Math.ceil(Math.log2(2 * merges.length + 2));
    this.mask = size - 1;
    this.slots = new Int32Array(4 * size).fill(NONE);
    for (let rank = 0; rank < merges.length; rank++) {
      const [left, right] = merges[rank]!;
      const first = this.symbol(left);
      const second = this.symbol(right);
      const slot = this.slotOf(first, second);
      this.slots[slot] = first;
      this.slots[slot + 1] = second;
      this.slots[slot + 2] = rank;
      this.slots[slot + 3] = this.symbol(left + right);
    }
  }

  /** The tokens that a word becomes: merges of the lowest rank first, of equal ones the leftmost. */
  merge(word: string): string[] {
    const symbols = this.symbolsOf(word);
    const count = symbols.length;
    const next = new Int32Array(count);
    const previous = new Int32Array(count);
    for (let at = 0; at < count; at++) {
      next[at] = at + 1 < count ? at + 1 : NONE;
      previous[at] = at - 1;
    }
    const { slots } = this;
    const slotAt = (at: number): number => (next[at] === NONE ? NONE : this.find(symbols[at]!, symbols[next[at]!]!));
    // A merge takes one key away and adds two at most.
    const heap = new KeyHeap(2 * count);
    for (let at = 0; at + 1 < count; at++) {
      const slot = slotAt(at);
      if (slot !== NONE) heap.append(slots[slot + 2]! * POSITIONS + at);
    }
    heap.order();
    const offer = (at: number) => {
      const slot = slotAt(at);
      if (slot !== NONE) heap.push(slots[slot + 2]! * POSITIONS + at);
    };
    while (heap.size > 0) {
      const key = heap.pop();
      const at = key % POSITIONS;
      // A position that was merged into the one before has no next; another pair may stand there by now.
      const slot = slotAt(at);
      if (slot === NONE || slots[slot + 2] !== Math.floor(key / POSITIONS)) continue;
      const gone = next[at]!;
      const after = next[gone]!;
      symbols[at] = slots[slot + 3]!;
      next[at] = after;
      next[gone] = NONE;
      if (after !== NONE) {
        previous[after] = at;
        offer(at);
      }
      if (previous[at] !== NONE) offer(previous[at]!);
    }
    const tokens: string[] = [];
    for (let at = count > 0 ? 0 : NONE; at !== NONE; at = next[at]!) {
      const symbol = symbols[at]!;
      tokens.push(symbol < 0 ? String.fromCodePoint(-1 - symbol) : this.names[symbol]!);
    }
    return tokens;
  }

  private symbolsOf(word: string): Int32Array {
    const symbols = new Int32Array(word.length);
    let count = 0;
    for (const character of word) {
      symbols[count++] = this.symbols.get(character) ?? -1 - character.codePointAt(0)!;
    }
    return symbols.subarray(0, count);
  }

  private symbol(name: string): number {
    let symbol = this.symbols.get(name);
    if (symbol === undefined) {
      symbol = this.names.push(name) - 1;
      this.symbols.set(name, symbol);
    }
    return symbol;
  }

  /** Where the pair stands in `slots`, or NONE. */
  private find(left: number, right: number): number {
    if (left < 0 || right < 0) return NONE;
    const slot = this.slotOf(left, right);
    return this.slots[slot] === NONE ? NONE : slot;
  }

  /** Where the pair stands in `slots`, or would. */
  private slotOf(left: number, right: number): number {
    const { slots, mask } = this;
    const mixed = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
    for (let at = (mixed ^ (mixed >>> 15)) & mask; ; at = (at + 1) & mask) {
      const slot = 4 * at;
      if (slots[slot] === NONE || (slots[slot] === left && slots[slot + 1] === right)) return slot;
    }
  }
}

/** The smallest key comes out first. */
class KeyHeap {
  size = 0;
  private readonly keys: Float64Array;

  constructor(capacity: number) {
    this.keys = new Float64Array(capacity);
  }

  /** Puts a key in without its order, which `order` makes. */
  append(key: number): void {
    this.keys[this.size++] = key;
  }

  order(): void {
    for (let at = (this.size >> 1) - 1; at >= 0; at--) this.sink(at, this.keys[at]!);
  }

  push(key: number): void {
    const { keys } = this;
    let at = this.size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (keys[parent]! <= key) break;
      keys[at] = keys[parent]!;
      at = parent;
    }
    keys[at] = key;
  }

  pop(): number {
    const smallest = this.keys[0]!;
    this.size--;
    if (this.size > 0) this.sink(0, this.keys[this.size]!);
    return smallest;
  }

  private sink(from: number, key: number): void {
    const { keys, size } = this;
    let at = from;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && keys[child + 1]! < keys[child]!) child++;
      if (keys[child]! >= key) break;
      keys[at] = keys[child]!;
      at = child;
    }
    keys[at] = key;
  }
}
