// From an AbortSignal to the native flag.

import { type NativeCancellation, nativeAddon } from "./nativeAddon.js";

/** Runs a native call that `signal` aborts; it then rejects with the signal's reason. */
export async function cancellable<T>(
  signal: AbortSignal | undefined,
  call: (cancellation: NativeCancellation | undefined) => Promise<T>,
): Promise<T> {
  if (!signal) return call(undefined);
  signal.throwIfAborted();
  const cancellation = nativeAddon().cancellation();
  const abort = () => cancellation.abort();
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await call(cancellation);
  } catch (error) {
    if (signal.aborted && (error as { code?: unknown }).code === "aborted") throw signal.reason;
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
