import { subscribe, unsubscribe } from "node:diagnostics_channel";

/** Nothing is shown of what is done within this time. */
const PATIENCE_MS = 1000;

const WIDTH = 30;

/** How a count is told, such as bytes as megabytes. */
interface Unit {
  name: string;
  /** Of it in the counted unit. */
  size: number;
}

export const MEGABYTES: Unit = { name: "MB", size: 1e6 };

/** `done` of `total` after some seconds, as a bar with rate and time left. */
export function progressText(what: string, done: number, total: number, seconds: number, unit?: Unit): string {
  const share = total > 0 ? Math.min(1, done / total) : 0;
  const bar = "#".repeat(Math.round(share * WIDTH)).padEnd(WIDTH, ".");
  const count = unit ? `${Math.round(share * 100)} %` : `${done} of ${total}`;
  if (done === 0 || seconds === 0) return `${what} [${bar}] ${count}`;
  const rate = done / seconds;
  const told = unit ? `, ${shortRate(rate / unit.size)} ${unit.name}/s` : `, ${shortRate(rate)}/s`;
  return `${what} [${bar}] ${count}${told}, ${duration((total - done) / rate)} left`;
}

const shortRate = (rate: number): string => (rate < 10 ? rate.toPrecision(2) : rate.toFixed(0));

/** Seconds as a user reads them. */
function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 100) return `${whole} s`;
  return whole < 6000 ? `${Math.round(whole / 60)} min` : `${(whole / 3600).toFixed(1)} h`;
}

/** A bar on a terminal for something that is counted, once it takes its time. */
export class ProgressBar {
  readonly #what: string;
  readonly #unit: Unit | undefined;
  readonly #output: NodeJS.WriteStream;
  readonly #started = performance.now();
  /** What is counted may stand still for long. */
  readonly #timer: NodeJS.Timeout;
  #shown = { done: 0, total: 0, note: "" };

  constructor(what: string, unit?: Unit, output: NodeJS.WriteStream = process.stderr) {
    this.#what = what;
    this.#unit = unit;
    this.#output = output;
    this.#timer = setInterval(() => this.#draw(), PATIENCE_MS).unref();
  }

  /** `note` is told behind the bar. */
  show(done: number, total: number, note = ""): void {
    this.#shown = { done, total, note };
    this.#draw();
  }

  end(): void {
    clearInterval(this.#timer);
    statusLine(null, this.#output);
  }

  [Symbol.dispose](): void {
    this.end();
  }

  #draw(): void {
    const { done, total, note } = this.#shown;
    const elapsed = performance.now() - this.#started;
    if (elapsed < PATIENCE_MS) return;
    statusLine(progressText(this.#what, done, total, elapsed / 1000, this.#unit) + note, this.#output);
  }
}

/** Shows how far the loading of models has come while `action` runs. */
export const withLoadingProgress = <T>(action: () => Promise<T>, output?: NodeJS.WriteStream): Promise<T> =>
  withProgress("anneal:model:progress", ({ id }) => `loading ${id}`, action, output);

/** Shows how far the writing of a whole model has come while `action` runs. */
export const withExportProgress = <T>(action: () => Promise<T>, output?: NodeJS.WriteStream): Promise<T> =>
  withProgress("anneal:export:progress", ({ path }) => `writing ${path}`, action, output);

interface Told {
  id?: string;
  path?: string;
  /** 0 to 1, of how many bytes. */
  fraction: number;
  bytes: number;
}

/** `what` names that which a message is about. */
async function withProgress<T>(
  channel: string,
  what: (message: Told) => string,
  action: () => Promise<T>,
  output: NodeJS.WriteStream = process.stderr,
): Promise<T> {
  const bars = new Map<string, ProgressBar>();
  const show = (message: unknown) => {
    const { fraction, bytes } = message as Told;
    const name = what(message as Told);
    const bar = bars.get(name) ?? new ProgressBar(name, MEGABYTES, output);
    bars.set(name, bar);
    bar.show(fraction * bytes, bytes);
  };
  subscribe(channel, show);
  try {
    return await action();
  } finally {
    unsubscribe(channel, show);
    for (const bar of bars.values()) bar.end();
  }
}

/** One line that is drawn over the last one, on a terminal; elsewhere nothing. null: takes it away. */
export function statusLine(line: string | null, output: NodeJS.WriteStream = process.stderr): void {
  if (output.isTTY) output.write(`\r\x1b[K${line === null ? "" : line.slice(0, (output.columns || 80) - 1)}`);
}
