// The n best of many, without sorting the many.

/** Keeps the first `limit` items of a strict order, whatever the order in which they are offered. */
export class NBest<T> {
  /** A heap with the last item of the order at its root. */
  private readonly heap: T[] = [];

  constructor(
    private readonly limit: number,
    private readonly precedes: (a: T, b: T) => boolean,
  ) {}

  /** The item that the next better one drives out; null while there is room. */
  get threshold(): T | null {
    return this.heap.length < this.limit ? null : (this.heap[0] ?? null);
  }

  /** Takes the item if it is among the best so far. */
  offer(item: T): boolean {
    const { heap } = this;
    if (heap.length < this.limit) {
      heap.push(item);
      this.rise(heap.length - 1);
      return true;
    }
    if (heap.length === 0 || !this.precedes(item, heap[0]!)) return false;
    heap[0] = item;
    this.sink();
    return true;
  }

  /** The best in order. */
  inOrder(): T[] {
    return [...this.heap].sort((a, b) => (this.precedes(a, b) ? -1 : 1));
  }

  private rise(at: number): void {
    const { heap } = this;
    const item = heap[at]!;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.precedes(heap[parent]!, item)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = item;
  }

  private sink(): void {
    const { heap } = this;
    const item = heap[0]!;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && this.precedes(heap[child]!, heap[child + 1]!)) child++;
      if (!this.precedes(item, heap[child]!)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = item;
  }
}
