import { availableParallelism, cpus, totalmem } from "node:os";
import { defineCommand } from "./command.js";
import { json, printListing } from "./listing.js";

interface Device {
  id: string;
  name: string;
  /** Those of them that anneal has kernels for, best last: that one is used. */
  instruction_sets: readonly string[];
  /** Compute threads by default. */
  threads: number;
  /** Bytes: that the machine has, and that this process could take now. */
  memory: { total: number; available: number };
}

/** @throws UnavailableError when the compute core cannot be loaded. */
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

export const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

export const devices = defineCommand({
  name: "devices",
  summary: "show what models can be computed on",
  flags: { json },
  async run(values) {
    const columns = [
      { title: "ID", cell: ({ id }: Device) => id },
      { title: "NAME", cell: ({ name }: Device) => name },
      { title: "INSTRUCTION SETS", cell: (device: Device) => device.instruction_sets.join(" ") },
      { title: "THREADS", cell: ({ threads }: Device) => threads },
      { title: "MEMORY", cell: ({ memory }: Device) => gigabytes(memory.total) },
      { title: "AVAILABLE", cell: ({ memory }: Device) => gigabytes(memory.available) },
    ];
    printListing(await listDevices(), columns, values.json);
    return 0;
  },
});
