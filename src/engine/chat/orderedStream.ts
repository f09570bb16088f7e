// What is answered piece by piece: pieces come in order however they are asked for, and leaving ends what makes them.

export abstract class OrderedStream<T> implements AsyncIterableIterator<T> {
  /** Pieces that are made as they are asked for. */
  protected ready: Iterator<T> = [].values();
  protected done = false;
  /** The last call of `next` that was made. */
  private latest: Promise<unknown> = Promise.resolve();

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** As with any async generator, calls need not wait for each other: every one gets a piece of its own, in order. */
  next(): Promise<IteratorResult<T>> {
    const result = this.latest.then(() => this.advance());
    this.latest = result.catch(() => undefined);
    return result;
  }

  async return(): Promise<IteratorResult<T>> {
    this.done = true;
    this.ready = [].values();
    await this.leave();
    return { done: true, value: undefined };
  }

  /** Sets `ready`, or `done` when nothing more will be; nothing comes after an error. */
  protected abstract fill(): Promise<void>;

  /** Ends what the pieces are made of. */
  protected abstract leave(): Promise<void>;

  private async advance(): Promise<IteratorResult<T>> {
    for (;;) {
      const piece = this.ready.next();
      if (!piece.done) return piece;
      if (this.done) return { done: true, value: undefined };
      try {
        await this.fill();
      } catch (error) {
        // Who has left waits for nothing.
        if (this.done) return { done: true, value: undefined };
        this.done = true;
        throw error;
      }
    }
  }
}
