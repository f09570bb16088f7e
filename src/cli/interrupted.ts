// The end that a signal asks for.

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** What closing may take, in milliseconds: what was acknowledged is durable, so that nothing more is lost after it. */
export const MAX_CLOSING = 15_000;

/**
 * Resolves at the first interrupt or termination signal. A second one ends the process at once, and so does time: something
 * may hold on to it that cannot be closed, such as a file that is never opened.
 */
export function interrupted(mostClosing = MAX_CLOSING): Promise<void> {
  return new Promise((resolve) => {
    const first = (signal: NodeJS.Signals) => {
      // From now on the system ends the process: that needs no thread of it.
      for (const name of SIGNALS) process.off(name, first);
      setTimeout(() => {
        process.stderr.write(`not closed within ${mostClosing / 1000} s: ending\n`);
        process.kill(process.pid, signal);
      }, mostClosing).unref();
      resolve();
    };
    for (const name of SIGNALS) process.on(name, first);
  });
}
