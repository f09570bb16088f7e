// What the process takes, under the names that Prometheus' own clients give it.

import type { MetricFamily } from "../engine/core/metricFamilies.js";
import { countOpenFiles, maxOpenFiles } from "./openFiles.js";

export function processFamilies(): MetricFamily[] {
  const { user, system } = process.cpuUsage();
  const openFiles = countOpenFiles();
  const maxFiles = maxOpenFiles();
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
    ...(maxFiles === null ? [] : [one("max_fds", "Open file descriptors at most.", "gauge", maxFiles)]),
  ];
}
