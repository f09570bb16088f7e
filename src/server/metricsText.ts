import type { HistogramSample, MetricFamily, MetricLabels } from "../engine/core/metricFamilies.js";

function labelText(labels: MetricLabels): string {
  const quoted = (value: string) => value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${quoted(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

const numberText = (value: number) => (value === Number.POSITIVE_INFINITY ? "+Inf" : String(value));

function* histogramLines(name: string, { labels, buckets, sum, count }: HistogramSample): Generator<string> {
  for (const { le, count: below } of buckets) {
    yield `${name}_bucket${labelText({ ...labels, le: numberText(le) })} ${below}`;
  }
  yield `${name}_sum${labelText(labels)} ${numberText(sum)}`;
  yield `${name}_count${labelText(labels)} ${count}`;
}

function* familyLines(family: MetricFamily, prefix: string): Generator<string> {
  const name = prefix + family.name + (family.kind === "counter" ? "_total" : "");
  yield `# HELP ${name} ${family.help}`;
  yield `# TYPE ${name} ${family.kind}`;
  if (family.kind === "histogram") for (const sample of family.samples) yield* histogramLines(name, sample);
  else for (const { labels, value } of family.samples) yield `${name}${labelText(labels)} ${numberText(value)}`;
}

/** Prometheus' text format. `prefix` stands before every name. */
export function renderMetrics(families: readonly MetricFamily[], prefix = ""): string {
  return families
    .flatMap((family) => [...familyLines(family, prefix)])
    .map((line) => `${line}\n`)
    .join("");
}
