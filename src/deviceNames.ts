// What an engine's `device` may be: a choice by itself, or a device of one of the kinds that native/backends/devices.cpp lists; and
// what its `precision` may be there.

import type { Precision } from "./types/devices.js";
import type { EngineOptions } from "./types/options.js";

export type DeviceName = NonNullable<EngineOptions["device"]>;

export const DEVICE_NAMES = 'auto, cpu, gpu or a device such as "vulkan:0"';

export const isDeviceName = (value: unknown): value is DeviceName =>
  typeof value === "string" && /^(auto|cpu|gpu|vulkan:\d{1,3})$/.test(value);

export const PRECISIONS = ["exact", "fast"] as const satisfies readonly Precision[];
