import { makePage } from "../../pages.js";
import type { EventRecord } from "../../store/records.js";
import type { Store } from "../../store/store.js";
import type { Page } from "../../types/page.js";
import type { TrainingEvent } from "../../types/training.js";

function toEvent({ id, type, data }: EventRecord): TrainingEvent {
  return { id, type, data } as TrainingEvent;
}

const isLast = (event: TrainingEvent) => event.type === "training_ended" || event.type === "training_failed";

/** A page of what has happened so far. */
export function eventPage(
  store: Store,
  jobId: string,
  query: { after?: string | null; limit: number },
): Page<TrainingEvent> {
  const { items, hasMore } = store.events.list(jobId, query);
  return makePage(items.map(toEvent), hasMore, async (after) => eventPage(store, jobId, { ...query, after }));
}

/** The events of a job after a cursor, each as soon as it has happened, up to the job's last one. */
export async function* followEvents(
  store: Store,
  jobId: string,
  after: string | null,
  signal: AbortSignal,
): AsyncGenerator<TrainingEvent> {
  let wake = () => {};
  const stop = store.events.subscribe(jobId, () => wake());
  const aborted = () => wake();
  signal.addEventListener("abort", aborted);
  try {
    for (let cursor = after; ; ) {
      signal.throwIfAborted();
      // Made before looking, so that an event in between is not slept over.
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const { items } = store.events.list(jobId, { after: cursor, limit: 100 });
      for (const event of items.map(toEvent)) {
        yield event;
        if (isLast(event)) return;
        cursor = event.id;
      }
      if (items.length === 0) {
        // The cursor may be the last event itself.
        if (store.events.terminal(jobId)) return;
        await woken;
      }
    }
  } finally {
    stop();
    signal.removeEventListener("abort", aborted);
  }
}
