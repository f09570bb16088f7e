import { it } from "vitest";

/** What the compute tests run on: ANNEAL_TEST_DEVICE, such as "vulkan:0"; else the processor. */
export const DEVICE = (process.env.ANNEAL_TEST_DEVICE ?? "cpu") as "cpu" | `vulkan:${number}`;

/** On which training of all weights is not computed. */
export const isGpu = DEVICE !== "cpu";

/** Mesa's device computes in software, and compiles shaders for every shape: there, of many alike a few. */
export const someOnGpu = <T>(all: readonly T[], isOneOfFew: (one: T) => boolean): T[] =>
  isGpu ? all.filter(isOneOfFew) : [...all];

export const TYPES = someOnGpu(["float32", "bfloat16"] as const, (dtype) => dtype === "bfloat16");

/** Of what takes a device in software minutes, where others try the same in seconds: there with ANNEAL_TEST_VULKAN=all. */
export const itUnlessSlow: ReturnType<typeof it.skipIf> = it.skipIf(isGpu && process.env.ANNEAL_TEST_VULKAN !== "all");
