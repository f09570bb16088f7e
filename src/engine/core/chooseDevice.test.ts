import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { Engine } from "../../anneal.js";
import type { GpuDevice } from "../../runtime/runtime.js";
import type { EngineOptions } from "../../types/options.js";
import { chooseDevice } from "./chooseDevice.js";
import { embeddedModel, resolveOptions } from "./options.js";

const GIB = 2 ** 30;

function gpu(id: string, kind: GpuDevice["kind"], rest: Partial<GpuDevice> = {}): GpuDevice {
  const memory = { memory: 8 * GIB, available: 8 * GIB, maxAllocation: 4 * GIB };
  const arithmetic = { fused: true, flushesDenormals: true, exact: true, fast: false };
  return { id, name: id, driver: "a driver", kind, problem: "", ...memory, ...arithmetic, ...rest };
}

const chosen = (gpus: GpuDevice[], options: EngineOptions = {}, hasMatrixUnit = false) => {
  const resolved = resolveOptions({ home: null, device: "auto", ...options });
  return chooseDevice(
    resolved,
    resolved.models,
    async () => gpus,
    () => hasMatrixUnit,
  );
};

it("is the processor where nobody asks for a GPU", async () => {
  const resolved = resolveOptions({ home: null });
  expect(await chooseDevice(resolved, resolved.models, async () => [gpu("vulkan:0", "discrete")])).toBe("cpu");
});

describe("layers of a GPU", () => {
  it.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 5000, "1", null])("are not %s", (gpuLayers) => {
    expect(() => resolveOptions({ home: null, gpuLayers: gpuLayers as number })).toThrow(
      expect.objectContaining({ issues: [expect.objectContaining({ loc: ["options", "gpuLayers"] })] }),
    );
  });

  it("are no more than the models have", async () => {
    const opened = Engine.open({ home: null, gpuLayers: 100 });
    await expect(opened).rejects.toMatchObject({
      code: "invalid_argument",
      param: expect.stringMatching(/gpuLayers$/),
      message: expect.stringContaining("from 1 to"),
    });
  });

  it("leave everything to the processor where they are 0, whatever is asked for", async () => {
    for (const device of ["auto", "gpu", "vulkan:0"] as const)
      expect(await chosen([gpu("vulkan:0", "discrete")], { device, gpuLayers: 0 })).toBe("cpu");
    expect(await chosen([], { device: "gpu", gpuLayers: 0 })).toBe("cpu");
    await using engine = await Engine.open({ home: null, device: "vulkan:99", gpuLayers: 0 });
    expect((await engine.models.list()).data).toBeDefined();
  });
});

describe("device auto", () => {
  it("is a discrete GPU before an integrated one, and never another kind", async () => {
    const all = [gpu("vulkan:0", "software"), gpu("vulkan:1", "integrated"), gpu("vulkan:2", "discrete")];
    expect(await chosen(all)).toBe("vulkan:2");
    expect(await chosen(all.slice(0, 2))).toBe("vulkan:1");
    expect(await chosen([all[0]!, gpu("vulkan:1", "virtual"), gpu("vulkan:2", "other")])).toBe("cpu");
    expect(await chosen([])).toBe("cpu");
  });

  it("has the memory for the models, each with a full context", async () => {
    const small = gpu("vulkan:0", "discrete", { available: 8 * 2 ** 20 });
    expect(await chosen([small, gpu("vulkan:1", "integrated")])).toBe("vulkan:1");
    expect(await chosen([small])).toBe("cpu");
    expect(await chosen([gpu("vulkan:0", "discrete", { maxAllocation: 1 << 16 })])).toBe("cpu");
    expect(await chosen([gpu("vulkan:0", "discrete")], { memoryLimit: 1 << 20 })).toBe("cpu");
    const pages = { ...embeddedModel, path: embeddedModel.path, kvPages: 10_000_000 };
    expect(await chosen([gpu("vulkan:0", "discrete")], { models: [pages] })).toBe("cpu");
  });

  it("computes the models, with the processor's bits", async () => {
    expect(await chosen([gpu("vulkan:0", "discrete")], { quantize: "q8" })).toBe("vulkan:0");
    expect(await chosen([gpu("vulkan:0", "discrete")], { kvCache: "int8" })).toBe("vulkan:0");
    expect(await chosen([gpu("vulkan:0", "discrete", { exact: false })])).toBe("cpu");
    expect(await chosen([gpu("vulkan:0", "discrete", { fused: false })])).toBe("cpu");
    const experts = fileURLToPath(new URL("../../../test/reference/models/qwen3_moe", import.meta.url));
    expect(await chosen([gpu("vulkan:0", "discrete")], { models: [experts] })).toBe("cpu");
    const lacking = gpu("vulkan:0", "discrete", { problem: "it lacks buffer device addresses" });
    expect(await chosen([lacking])).toBe("cpu");
    await expect(chosen([lacking], { device: "gpu" })).rejects.toMatchObject({ code: "unusable_device" });
  });

  it("has a matrix unit where precision is fast, and is refused where nothing has", async () => {
    const [plain, fast] = [gpu("vulkan:0", "discrete"), gpu("vulkan:1", "integrated", { fast: true })];
    const ofFast = (gpus: GpuDevice[], options: EngineOptions = {}) => chosen(gpus, { precision: "fast", ...options });
    expect(await ofFast([plain, fast])).toBe("vulkan:1");
    expect(await ofFast([plain, { ...fast, exact: false }])).toBe("vulkan:1");
    expect(await ofFast([plain, fast], { device: "gpu" })).toBe("vulkan:1");
    const refused = { code: "unusable_device", param: "precision" };
    await expect(ofFast([plain])).rejects.toMatchObject(refused);
    await expect(ofFast([plain], { device: "gpu" })).rejects.toMatchObject(refused);
    await expect(ofFast([fast], { device: "cpu" })).rejects.toMatchObject(refused);
    await expect(ofFast([fast], { gpuLayers: 0 })).rejects.toMatchObject(refused);
    const withAmx = (device: "cpu" | "gpu" | "auto", gpus: GpuDevice[]) =>
      chosen(gpus, { precision: "fast", device }, true);
    expect(await withAmx("cpu", [fast])).toBe("cpu");
    expect(await withAmx("auto", [plain])).toBe("cpu");
    expect(await withAmx("auto", [fast])).toBe("vulkan:1");
    await expect(withAmx("gpu", [plain])).rejects.toMatchObject(refused);
  });

  it("gives way to what is asked for", async () => {
    expect(await chosen([gpu("vulkan:0", "discrete")], { device: "cpu" })).toBe("cpu");
    expect(await chosen([], { device: "vulkan:3" })).toBe("vulkan:3");
    expect(await chosen([gpu("vulkan:1", "integrated", { exact: false })], { device: "gpu" })).toBe("vulkan:1");
  });
});
