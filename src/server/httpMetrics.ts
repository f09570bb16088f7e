// How many requests came over HTTP and how long they took, under the names that Prometheus dashboards expect of a server.

import { Histogram, type MetricFamily, type MetricLabels } from "../engine/core/metricFamilies.js";

const COARSE = [0.1, 0.5, 1];
const FINE = [0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60];

/** One request that has been answered to its end. */
export interface AnsweredRequest {
  method: string;
  /** The route's path; null: there is none. */
  path: string | null;
  status: number;
  seconds: number;
}

export class HttpMetrics {
  private readonly requests = new Map<string, { labels: MetricLabels; value: number }>();
  private readonly durations = new Histogram("http_request_duration_seconds", "Time to the end of an answer.", COARSE);
  private readonly fineDurations = new Histogram(
    "http_request_duration_highr_seconds",
    "Time to the end of an answer, of all requests, in finer steps.",
    FINE,
  );

  answered({ method, path, status, seconds }: AnsweredRequest): void {
    const handler = path ?? "none";
    const labels = { handler, method, status: `${Math.floor(status / 100)}xx` };
    const key = JSON.stringify(labels);
    const count = this.requests.get(key) ?? { labels, value: 0 };
    count.value++;
    this.requests.set(key, count);
    this.durations.observe({ handler, method }, seconds);
    this.fineDurations.observe({}, seconds);
  }

  families(): MetricFamily[] {
    const samples = [...this.requests.values()];
    return [
      { name: "http_requests", help: "Requests answered.", kind: "counter", samples },
      this.durations.family(),
      this.fineDurations.family(),
    ];
  }
}
