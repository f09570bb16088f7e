import { expect, it } from "vitest";
import type { MetricFamily } from "../engine/core/metricFamilies.js";
import { renderMetrics } from "./metricsText.js";

// The expected lines follow Prometheus' exposition format, version 0.0.4.
it("writes gauges, counters and histograms", () => {
  const labels = { model_name: 'a "quoted\\" name' };
  const families: MetricFamily[] = [
    { name: "num_requests_running", help: "Now.", kind: "gauge", samples: [{ labels, value: 2 }] },
    { name: "prompt_tokens", help: "All.", kind: "counter", samples: [{ labels: {}, value: 7 }] },
    {
      name: "latency_seconds",
      help: "Time.",
      kind: "histogram",
      samples: [
        {
          labels: { engine: "0" },
          buckets: [
            { le: 0.5, count: 1 },
            { le: Number.POSITIVE_INFINITY, count: 3 },
          ],
          sum: 4.25,
          count: 3,
        },
      ],
    },
  ];
  expect(renderMetrics(families, "vllm:").split("\n")).toEqual([
    "# HELP vllm:num_requests_running Now.",
    "# TYPE vllm:num_requests_running gauge",
    'vllm:num_requests_running{model_name="a \\"quoted\\\\\\" name"} 2',
    "# HELP vllm:prompt_tokens_total All.",
    "# TYPE vllm:prompt_tokens_total counter",
    "vllm:prompt_tokens_total 7",
    "# HELP vllm:latency_seconds Time.",
    "# TYPE vllm:latency_seconds histogram",
    'vllm:latency_seconds_bucket{engine="0",le="0.5"} 1',
    'vllm:latency_seconds_bucket{engine="0",le="+Inf"} 3',
    'vllm:latency_seconds_sum{engine="0"} 4.25',
    'vllm:latency_seconds_count{engine="0"} 3',
    "",
  ]);
  expect(renderMetrics(families)).toContain("\nprompt_tokens_total 7\n");
});
