// The requests of a model that have not ended.

import { ClosedError, RateLimitError } from "../errors.js";
import type { RequestState } from "./requestState.js";

/** A set that refuses to grow past its limit, or once closed. */
export class OpenRequests extends Set<RequestState> {
  private isClosed = false;

  /**
   * Whether there may be another one beside `waiting` others.
   * @throws ClosedError after `close`; the signal's reason after an abort; RateLimitError when as many wait as may
   */
  checkRoom(waiting: number, maxQueue: number, signal: AbortSignal | undefined): void {
    if (this.isClosed) throw closed();
    signal?.throwIfAborted();
    if (waiting < maxQueue) return;
    throw new RateLimitError(`${waiting} requests are waiting already; try again later`, {
      hint: "send fewer requests at once, or raise maxQueue",
    });
  }

  /** Ends all of them with an error; there will be no more. */
  close(): void {
    this.isClosed = true;
    for (const request of [...this]) request.fail(closed());
  }
}

const closed = () => new ClosedError("the model has been closed");
