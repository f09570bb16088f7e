/** Draws a series as a block of text, one column a step. */

const EIGHTHS = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/**
 * Lines of a bar chart, top line first, with a scale on the left.
 *
 * @param values one per step, clamped to [from, to]
 * @param height lines of the chart
 * @param width columns at most; more values than that are averaged into buckets
 */
export function rewardCurve(values: readonly number[], { height = 8, width = 60, from = 0, to = 1 } = {}): string[] {
  if (values.length === 0) return [];
  const span = to > from ? to - from : 1;
  const shares = values.map((value) => Math.max(0, Math.min(1, (value - from) / span)));
  const columns = bucket(shares, Math.min(width, values.length));
  // Short series get wide bars, so that thirty steps fill the eye as well as sixty.
  const repeat = Math.max(1, Math.min(3, Math.floor(width / columns.length)));
  const [top, bottom] = [scaleLabel(to), scaleLabel(from)];
  const margin = Math.max(top.length, bottom.length);
  const lines: string[] = [];
  for (let row = height - 1; row >= 0; row--) {
    const label = row === height - 1 ? top : row === 0 ? bottom : "";
    const bars = columns.map((value) => {
      const filled = Math.round(value * height * 8) - row * 8;
      return EIGHTHS[Math.max(0, Math.min(8, filled))]!.repeat(repeat);
    });
    lines.push(`${label.padStart(margin)} ${label ? "┤" : "│"}${bars.join("")}`);
  }
  return lines;
}

function scaleLabel(value: number): string {
  return Math.abs(value) < 100 ? value.toFixed(1) : value.toPrecision(3);
}

function bucket(values: readonly number[], count: number): number[] {
  return Array.from({ length: count }, (_, i) => {
    const begin = Math.floor((i * values.length) / count);
    const end = Math.max(begin + 1, Math.floor(((i + 1) * values.length) / count));
    const slice = values.slice(begin, end);
    return slice.reduce((sum, value) => sum + value, 0) / slice.length;
  });
}
