// Many requests may follow one signal: it gets one listener, however many there are (Node warns of more than ten).

const followers = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `abort` once if the signal aborts; the function returned ends the following. */
export function onAbort(signal: AbortSignal, abort: () => void): () => void {
  let callbacks = followers.get(signal);
  if (callbacks === undefined) {
    const added = new Set<() => void>();
    callbacks = added;
    followers.set(signal, added);
    signal.addEventListener("abort", runAll, { once: true });
  }
  const all = callbacks;
  all.add(abort);
  return () => {
    all.delete(abort);
    if (all.size > 0 || followers.get(signal) !== all) return;
    followers.delete(signal);
    signal.removeEventListener("abort", runAll);
  };
}

/** What `promise` resolves to; an abort rejects with the signal's reason, whatever the promise does. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const unfollow = onAbort(signal, () => reject(signal.reason));
    promise.then(resolve, reject).finally(unfollow);
  });
}

function runAll(this: AbortSignal): void {
  const callbacks = followers.get(this);
  followers.delete(this);
  for (const abort of callbacks ?? []) abort();
}
