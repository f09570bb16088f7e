// Which device an engine computes its models on.

import { BadRequestError, InsufficientMemoryError, UnavailableError } from "../../errors.js";
import { type GpuDevice, listGpus, openRuntime } from "../../runtime/runtime.js";
import type { ModelOptions } from "../../types/options.js";
import { findFolder } from "./baseModel.js";
import { pagesOfContext } from "./memoryPlan.js";
import { isComputedByOnnx, openWeights } from "./openedWeights.js";
import type { ResolvedOptions } from "./options.js";

/** Of the memory available at the start, what weights and pages may take when the operator set no limit. */
export const MEMORY_SHARE = 0.75;

/**
 * As the runtime calls it. "auto" is a GPU where it computes every one of the models with the processor's bits and has the
 * memory for them, each with one full context; else the processor.
 * @throws UnavailableError with code "unusable_device" for "gpu" where no GPU can compute models, and where none has what
 * `precision` asks for.
 */
export async function chooseDevice(
  options: ResolvedOptions,
  models: readonly ModelOptions[],
  hardware: () => Promise<readonly GpuDevice[]> = () => listGpus({ hardware: true }),
  hasMatrixUnit: () => boolean = () => openRuntime().hasMatrixUnit,
): Promise<string> {
  const { device } = options;
  const isFast = options.precision === "fast";
  if (isFast && device === "cpu" && !hasMatrixUnit()) throw lacksMatrices("the processor");
  if (device !== "auto" && device !== "gpu") {
    const known = isFast ? (await listGpus()).find(({ id }) => id === device) : undefined;
    if (known && !known.fast) throw lacksMatrices(device);
    return device;
  }
  const usable = (await hardware()).filter(({ problem, fast }) => problem === "" && (fast || !isFast));
  const gpus = [
    ...usable.filter(({ kind }) => kind === "discrete"),
    ...usable.filter(({ kind }) => kind === "integrated"),
  ];
  if (device === "auto") {
    for (const gpu of gpus)
      if ((isFast || (gpu.exact && gpu.fused)) && (await holds(gpu, models, options))) return gpu.id;
    if (isFast && !hasMatrixUnit()) throw lacksMatrices("this machine");
    return "cpu";
  }
  if (gpus[0]) return gpus[0].id;
  if (isFast) throw lacksMatrices("this machine");
  throw new UnavailableError("this machine has no GPU that models can be computed on", {
    code: "unusable_device",
    param: "device",
    hint: "anneal devices lists what there is; vulkan:N takes one of them, also one in software",
  });
}

const lacksMatrices = (what: string) =>
  new UnavailableError(`${what} has no matrix unit, which precision "fast" multiplies with`, {
    code: "unusable_device",
    param: "precision",
    hint:
      "it takes AMX of a processor, on Linux, or cooperative matrices of a GPU: anneal devices says which have them; precision " +
      '"exact" is computed everywhere',
  });

/** Whether a GPU computes all of the models, and has room for them at once. */
async function holds(gpu: GpuDevice, models: readonly ModelOptions[], options: ResolvedOptions): Promise<boolean> {
  const runtime = openRuntime({ device: gpu.id, gpuLayers: options.gpuLayers });
  let left = options.memoryLimit ?? gpu.available * MEMORY_SHARE;
  try {
    for (const model of models) {
      const { folder } = await findFolder(model.path);
      if (await isComputedByOnnx(folder, model)) continue;
      const { config, needs } = await openWeights(runtime, folder, model, options, left);
      const contextLength = Math.min(options.contextLength ?? config.maxPositions, config.maxPositions);
      left -= needs.weights + (model.kvPages ?? pagesOfContext(needs, contextLength, options.tokenBudget)) * needs.page;
      if (left < 0 || needs.largestPiece > gpu.maxAllocation) return false;
    }
    return true;
  } catch (error) {
    // What it does not compute, it refuses by name.
    if (error instanceof BadRequestError || error instanceof InsufficientMemoryError) return false;
    throw error;
  }
}
