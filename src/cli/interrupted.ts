// The end that a signal asks for.

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** What closing may take, in milliseconds: what was acknowledged is durable, so that nothing more is lost after it. */
export const MAX_CLOSING = 15_000;

/**
 * Resolves at the first interrupt or termination signal, to its name. A second one ends the process at once, and so does time:
 * something may hold on to it that cannot be closed, such as a file that is never opened. After `over` signals are the
 * system's again.
 */
export function interrupted(mostClosing = MAX_CLOSING, over?: AbortSignal): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const ignore = () => {
      for (const name of SIGNALS) process.off(name, first);
    };
    const first = (signal: NodeJS.Signals) => {
      // From now on the system ends the process: that needs no thread of it.
      ignore();
      setTimeout(() => {
        process.stderr.write(`not closed within ${mostClosing / 1000} s: ending\n`);
        process.kill(process.pid, signal);
      }, mostClosing).unref();
      resolve(signal);
    };
    for (const name of SIGNALS) process.on(name, first);
    over?.addEventListener("abort", ignore, { once: true });
  });
}
