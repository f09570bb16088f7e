import { subscribe, unsubscribe } from "node:diagnostics_channel";

/** Nothing is shown of what is done within this time. */
const patienceMs = 1000;

const width = 30;

/**
 * Shows how far the loading of models has come, on a terminal, while `action` runs and if that takes its time.
 */
export async function withLoadingProgress<T>(action: () => Promise<T>, output = process.stderr): Promise<T> {
  const started = performance.now();
  let shown = false;
  const show = (message: unknown) => {
    if (!output.isTTY || performance.now() - started < patienceMs) return;
    const { id, fraction } = message as { id: string; fraction: number };
    const filled = Math.round(fraction * width);
    output.write(`\rloading ${id} [${"#".repeat(filled).padEnd(width, ".")}] ${Math.round(fraction * 100)} %`);
    shown = true;
  };
  subscribe("anneal:model:progress", show);
  try {
    return await action();
  } finally {
    unsubscribe("anneal:model:progress", show);
    if (shown) output.write("\r\u001b[K");
  }
}

/** One line that is drawn over the last one, on a terminal; elsewhere nothing. null: takes it away. */
export function statusLine(line: string | null, output = process.stderr): void {
  if (output.isTTY) output.write(`\r\x1b[K${line === null ? "" : line.slice(0, (output.columns || 80) - 1)}`);
}
