// Responses that are made while nobody waits for them: whoever asks later follows their events, or cancels them.

import { clearTimeout, setTimeout } from "node:timers";
import { ClosedError, RateLimitError } from "../../errors.js";
import type { ModelResponse, ResponseStreamEvent } from "../../types/responses.js";
import { OrderedStream } from "../chat/orderedStream.js";
import type { Making } from "./making.js";

/** At work at the same time. */
const MAX_AT_WORK = 1000;
/** For which events are told one by one after the end, in milliseconds. */
const REMEMBERED = 5 * 60_000;

interface Work {
  making: Making;
  readonly controller: AbortController;
  readonly events: ResponseStreamEvent[];
  /** Resolved, and made anew, whenever there are more events or it has ended. */
  news: PromiseWithResolvers;
  hasEnded: boolean;
  ended: Promise<void>;
  /** Set once it has ended. */
  forgetting: NodeJS.Timeout | undefined;
}

interface PromiseWithResolvers {
  promise: Promise<void>;
  resolve: () => void;
}

function withResolvers(): PromiseWithResolvers {
  let resolve!: () => void;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

export class BackgroundResponses {
  private readonly works = new Map<string, Work>();
  private atWork = 0;

  /** `closing` ends them all. */
  constructor(private readonly closing: AbortSignal) {}

  /** Begins, once the request has been accepted. */
  async start(making: Making, streams: boolean): Promise<ModelResponse | AsyncIterable<ResponseStreamEvent>> {
    if (this.atWork >= MAX_AT_WORK) {
      throw new RateLimitError(`${this.atWork} responses are made in the background already; try again later`);
    }
    this.atWork++;
    const controller = new AbortController();
    const signal = AbortSignal.any([controller.signal, this.closing]);
    let chunks: Awaited<ReturnType<Making["chunks"]>>;
    try {
      chunks = await making.chunks(signal);
      await making.keep();
    } catch (error) {
      controller.abort(error);
      this.atWork--;
      throw error;
    }
    const { id } = making.response;
    const first = structuredClone(making.response);
    const work: Work = {
      making,
      controller,
      events: [],
      news: withResolvers(),
      hasEnded: false,
      ended: Promise.resolve(),
      forgetting: undefined,
    };
    this.works.set(id, work);
    work.ended = this.make(work, chunks).finally(() => {
      this.atWork--;
      work.hasEnded = true;
      work.news.resolve();
      work.forgetting = setTimeout(() => this.works.delete(id), REMEMBERED).unref();
    });
    return streams ? new Followed(work, 0) : first;
  }

  /** Its events from the one after `startingAfter`; null: they are not remembered one by one. */
  follow(id: string, startingAfter: number | null): AsyncIterable<ResponseStreamEvent> | null {
    const work = this.works.get(id);
    return work === undefined ? null : new Followed(work, startingAfter === null ? 0 : startingAfter + 1);
  }

  /** As it is now; null: it is not at work. */
  current(id: string): ModelResponse | null {
    const work = this.works.get(id);
    return work === undefined || work.hasEnded ? null : structuredClone(work.making.response);
  }

  /** Ends one that is at work, and waits until it has. */
  async cancel(id: string): Promise<void> {
    const work = this.works.get(id);
    work?.controller.abort(new DOMException("the response was cancelled", "AbortError"));
    await work?.ended;
  }

  /** Ends one, and forgets it. */
  async remove(id: string): Promise<void> {
    await this.cancel(id);
    // It holds what the response was made of.
    clearTimeout(this.works.get(id)?.forgetting);
    this.works.delete(id);
  }

  private async make(work: Work, chunks: AsyncIterator<Parameters<Making["read"]>[0]>): Promise<void> {
    const { making, controller } = work;
    const tell = () => {
      work.events.push(...making.writer.take());
      const { news } = work;
      work.news = withResolvers();
      news.resolve();
    };
    try {
      making.writer.begin();
      for (;;) {
        tell();
        const { done, value } = await chunks.next();
        if (done) break;
        making.read(value);
      }
      await making.end();
    } catch (error) {
      await this.broken(making, error, controller.signal.aborted);
    }
    tell();
  }

  private async broken(making: Making, error: unknown, isCancelled: boolean): Promise<void> {
    try {
      if (isCancelled) {
        making.writer.cancel();
        await making.keep();
      } else await making.fail(error);
    } catch (cause) {
      // A home that has been closed knows when it is opened again that this one has not ended.
      if (!(cause instanceof ClosedError)) making.host.report(cause);
    }
  }
}

/** Events of a response at work, those to come too. Leaving changes nothing for it. */
class Followed extends OrderedStream<ResponseStreamEvent> {
  constructor(
    private readonly work: Work,
    /** Sequence number of the next event. */
    private at: number,
  ) {
    super();
  }

  protected async fill(): Promise<void> {
    const { work } = this;
    const { promise } = work.news;
    if (this.at < work.events.length) {
      this.ready = work.events.slice(this.at).values();
      this.at = work.events.length;
    } else if (work.hasEnded) this.done = true;
    else await promise;
  }

  protected async leave(): Promise<void> {}
}
