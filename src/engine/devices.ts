import { availableParallelism, cpus, totalmem } from "node:os";
import type { Device } from "../types/devices.js";

/**
 * What models can be computed on.
 * @throws UnavailableError when the compute core cannot be loaded.
 */
export async function listDevices(): Promise<Device[]> {
  const { openRuntime } = await import("../runtime/runtime.js");
  const runtime = openRuntime({});
  return [
    {
      id: "cpu",
      name: cpus()[0]?.model.trim() || `${process.arch} processor`,
      instruction_sets: runtime.kernelSets,
      threads: Math.min(runtime.threads, availableParallelism()),
      memory: { total: totalmem(), available: runtime.availableMemory() },
    },
  ];
}
