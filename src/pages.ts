import type { Page } from "./types/page.js";

interface Identified {
  id: string;
}

/** A page and, when it is iterated over, all pages after it. */
export function makePage<T extends Identified>(
  data: T[],
  hasMore: boolean,
  next: (after: string) => Promise<Page<T>>,
): Page<T> {
  return Object.defineProperty(
    { object: "list", data, has_more: hasMore, first_id: data[0]?.id ?? "", last_id: data.at(-1)?.id ?? "" },
    Symbol.asyncIterator,
    {
      // Not enumerable: a page prints, compares and serialises as what came over the wire.
      async *value(): AsyncGenerator<T> {
        yield* data;
        if (!hasMore || data.length === 0) return;
        yield* await next(data.at(-1)!.id);
      },
    },
  ) as Page<T>;
}

/** A page to be: awaited it is the page, iterated over it is the items of all pages. */
export class PagePromise<T> implements PromiseLike<Page<T>>, AsyncIterable<T> {
  readonly #page: () => Promise<Page<T>>;
  #asked: Promise<Page<T>> | undefined;

  constructor(page: () => Promise<Page<T>>) {
    this.#page = page;
  }

  #ask(): Promise<Page<T>> {
    this.#asked ??= this.#page();
    return this.#asked;
  }

  // biome-ignore lint/suspicious/noThenProperty: being awaitable is what this class is for.
  then<A = Page<T>, B = never>(
    fulfilled?: ((page: Page<T>) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#ask().then(fulfilled, rejected);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    yield* await this.#ask();
  }
}
