import { availableParallelism, cpus, totalmem } from "node:os";
import { PRECISIONS } from "../deviceNames.js";
import type { GpuDevice } from "../runtime/runtime.js";
import type { Device, DeviceRate } from "../types/devices.js";

/**
 * What models can be computed on: the processor, then the GPUs that Vulkan lists, each of them opened and tried.
 * @throws UnavailableError when the compute core cannot be loaded.
 */
export async function listDevices(): Promise<Device[]> {
  const { listGpus, openRuntime } = await import("../runtime/runtime.js");
  const runtime = openRuntime({});
  const cpu: Device = {
    id: "cpu",
    kind: "cpu",
    name: cpus()[0]?.model.trim() || `${process.arch} processor`,
    instruction_sets: runtime.kernelSets,
    threads: Math.min(runtime.threads, availableParallelism()),
    memory: { total: totalmem(), available: runtime.availableMemory() },
    precisions: precisionsOf(runtime.hasMatrixUnit),
  };
  return [cpu, ...(await listGpus()).map(described)];
}

/**
 * Measures a GPU for about a second, which nothing else should use meanwhile.
 * @param id  of those that `listDevices` lists: "vulkan:0"
 * @throws UnavailableError with code "unusable_device" for one that is not there or cannot be used.
 */
export async function measureDevice(id: `vulkan:${number}`): Promise<DeviceRate> {
  const { measureGpu } = await import("../runtime/runtime.js");
  const { bandwidth, operations, matrixOperations } = await measureGpu(id);
  return {
    bytes_per_second: bandwidth,
    operations_per_second: operations,
    matrix_operations_per_second: matrixOperations || null,
  };
}

const precisionsOf = (hasMatrices: boolean) => PRECISIONS.filter((precision) => precision === "exact" || hasMatrices);

function described({ id, kind, name, memory, available, ...gpu }: GpuDevice): Device {
  return {
    id,
    kind,
    name,
    instruction_sets: [],
    threads: 0,
    memory: { total: memory, available },
    precisions: precisionsOf(gpu.fast),
    gpu: {
      driver: gpu.driver,
      exact: gpu.exact,
      fused_multiply_add: gpu.fused,
      flushes_denormals: gpu.flushesDenormals,
      problem: gpu.problem || null,
    },
  };
}
