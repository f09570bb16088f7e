/** Draws a series of values in 0..1 as a block of text, one column a step. */

const EIGHTHS = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/**
 * Lines of a bar chart, top line first, with a scale on the left.
 *
 * @param values one per step, clamped to [0, 1]
 * @param height lines of the chart
 * @param width columns at most; more values than that are averaged into buckets
 */
export function rewardCurve(values: readonly number[], { height = 8, width = 60 } = {}): string[] {
  if (values.length === 0) return [];
  const columns = bucket(values, Math.min(width, values.length));
  // Short series get wide bars, so that thirty steps fill the eye as well as sixty.
  const repeat = Math.max(1, Math.min(3, Math.floor(width / columns.length)));
  const lines: string[] = [];
  for (let row = height - 1; row >= 0; row--) {
    const label = row === height - 1 ? "1.0 ┤" : row === 0 ? "0.0 ┤" : "    │";
    const bars = columns.map((value) => {
      const filled = Math.round(value * height * 8) - row * 8;
      return EIGHTHS[Math.max(0, Math.min(8, filled))]!.repeat(repeat);
    });
    lines.push(`${label}${bars.join("")}`);
  }
  return lines;
}

function bucket(values: readonly number[], count: number): number[] {
  const clamped = values.map((value) => Math.max(0, Math.min(1, value)));
  return Array.from({ length: count }, (_, i) => {
    const begin = Math.floor((i * clamped.length) / count);
    const end = Math.max(begin + 1, Math.floor(((i + 1) * clamped.length) / count));
    const slice = clamped.slice(begin, end);
    return slice.reduce((sum, value) => sum + value, 0) / slice.length;
  });
}
