// What the process takes, under the names that Prometheus' own clients give it.

import { readdirSync } from "node:fs";
import type { MetricFamily } from "../engine/core/metricFamilies.js";

export function processFamilies(): MetricFamily[] {
  const { user, system } = process.cpuUsage();
  const openFiles = countOpenFiles();
  const one = (name: string, help: string, kind: "gauge" | "counter", value: number): MetricFamily => ({
    name: `process_${name}`,
    help,
    kind,
    samples: [{ labels: {}, value }],
  });
  return [
    one("cpu_seconds", "Processor time, user and system.", "counter", (user + system) / 1e6),
    one("resident_memory_bytes", "Resident memory.", "gauge", process.memoryUsage.rss()),
    one("start_time_seconds", "When the process started, Unix seconds.", "gauge", Date.now() / 1000 - process.uptime()),
    ...(openFiles === null ? [] : [one("open_fds", "Open file descriptors.", "gauge", openFiles)]),
  ];
}

/** null: the system does not tell. */
function countOpenFiles(): number | null {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return null;
  }
}
