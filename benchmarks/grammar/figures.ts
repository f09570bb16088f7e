/** What is measured of an engine, in milliseconds. */
export interface Figures {
  prepare: number;
  compile: number[];
  /** First masks of a freshly compiled grammar included. */
  mask: number[];
  /** Schemas that were refused, and those at which the engine's process ended or hung. */
  refused: number;
  crashed: number;
  /** Valid instances that were not accepted. */
  wrong: number;
}

export const noFigures = (): Figures => ({ prepare: 0, compile: [], mask: [], refused: 0, crashed: 0, wrong: 0 });

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

export function show(name: string, { prepare, compile, mask, refused, crashed, wrong }: Figures): void {
  const ms = (value: number) => `${value.toFixed(value < 10 ? 2 : 0)} ms`;
  const us = (value: number) => (Number.isNaN(value) ? "-" : `${(1000 * value).toFixed(0)} us`);
  console.log(
    [
      `| ${name}`,
      ms(prepare),
      `${ms(percentile(compile, 0.5))} / ${ms(percentile(compile, 0.99))}`,
      `${us(percentile(mask, 0.5))} / ${us(percentile(mask, 0.99))} / ${us(percentile(mask, 0.999))}`,
      `${compile.length} / ${refused} / ${crashed}`,
      `${wrong} |`,
    ].join(" | "),
  );
}
