// Metrics as data, in the kinds that Prometheus has. Not with prom-client: it has no observation of many equal values at once and
// no data that is free of its own types, and would bring OpenTelemetry's API and tdigest for these few lines.

export type MetricLabels = Readonly<Record<string, string>>;

export interface MetricSample {
  labels: MetricLabels;
  value: number;
}

export interface HistogramSample {
  labels: MetricLabels;
  /** Observations at most `le`, cumulative; the last `le` is Infinity. */
  buckets: { le: number; count: number }[];
  sum: number;
  count: number;
}

/** `name` is without prefix and, for counters, without `_total`. */
export type MetricFamily =
  | { name: string; help: string; kind: "gauge" | "counter"; samples: MetricSample[] }
  | { name: string; help: string; kind: "histogram"; samples: HistogramSample[] };

/** Counts observations by labels, in buckets of given upper bounds (ascending). */
export class Histogram {
  private readonly series = new Map<string, { labels: MetricLabels; counts: number[]; sum: number; count: number }>();

  constructor(
    readonly name: string,
    readonly help: string,
    private readonly bounds: readonly number[],
  ) {}

  observe(labels: MetricLabels, value: number, times = 1): void {
    const key = JSON.stringify(labels);
    let series = this.series.get(key);
    if (series === undefined) {
      series = { labels, counts: new Array<number>(this.bounds.length + 1).fill(0), sum: 0, count: 0 };
      this.series.set(key, series);
    }
    const at = this.bounds.findIndex((bound) => value <= bound);
    series.counts[at < 0 ? this.bounds.length : at]! += times;
    series.sum += value * times;
    series.count += times;
  }

  family(): MetricFamily {
    const samples = [...this.series.values()].map(({ labels, counts, sum, count }) => {
      let below = 0;
      const buckets = counts.map((inBucket, i) => {
        below += inBucket;
        return { le: this.bounds[i] ?? Number.POSITIVE_INFINITY, count: below };
      });
      return { labels, buckets, sum, count };
    });
    return { name: this.name, help: this.help, kind: "histogram", samples };
  }
}
