import { readFileSync, writeFileSync } from "node:fs";

/**
 * Bytes of memory that this process has, and the most it had at one time since `resetPeak`, or since it began.
 * @throws where the system has no /proc
 */
export function residentMemory(): { now: number; peak: number } {
  const status = readFileSync("/proc/self/status", "utf8");
  const of = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)![1]) * 1024;
  return { now: of("VmRSS"), peak: of("VmHWM") };
}

/** @throws where this process may not */
export const resetPeak = (): void => writeFileSync("/proc/self/clear_refs", "5");
