import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { engineFlags, readEngineOptions } from "./engineFlags.js";
import { exportModel } from "./export.js";
import { bytes, integer, origins, readFlags, UsageError } from "./flags.js";
import { serve } from "./serve.js";

describe("flags", () => {
  it("name a model by its path, with equals signs in it too, or as NAME=PATH", () => {
    const folder = join(mkdtempSync(join(tmpdir(), "flags-")), "a=b c");
    mkdirSync(folder);
    const { values } = readFlags(["--model", folder, "--model", `x=${folder}`], engineFlags, {});
    expect(values.model).toEqual([{ path: folder }, { id: "x", path: folder }]);
    rmSync(dirname(folder), { recursive: true });
    for (const given of ["", "x="]) {
      expect(() => readFlags([`--model=${given}`], engineFlags, {})).toThrow(`not "${given}"`);
    }
  });

  it("become the engine's options, the environment standing in for what is not given", () => {
    const args = [
      "--model",
      "a",
      "--model",
      "big=/m/b",
      "--threads",
      "2",
      "--tool-parser",
      "hermes",
      "--scheduler=priority",
      "--optimizer",
      "rl.weightDecay=0.05",
      "--optimizer=rl.eps=1e-6",
      "--optimizer=sft.maxGradNorm=0",
      "--adapter-rank=4",
      "--adapter-target=q_proj",
    ];
    const environment = {
      ANNEAL_THREADS: "7",
      ANNEAL_MEMORY_LIMIT: "1.5GiB",
      ANNEAL_DATA_ROOT: ["/x", "/y"].join(process.platform === "win32" ? ";" : ":"),
      ANNEAL_API_KEY: "k",
      ANNEAL_ENTITY: "",
    };
    const { values } = readFlags(args, engineFlags, environment);
    expect(readEngineOptions(values)).toEqual({
      models: [{ path: resolve("a") }, { id: "big", path: resolve("/m/b") }],
      threads: 2,
      toolParser: "hermes",
      scheduler: "priority",
      optimizer: { rl: { weightDecay: 0.05, eps: 1e-6 }, sft: { maxGradNorm: 0 } },
      adapter: { rank: 4, targets: ["q_proj"] },
      memoryLimit: 1.5 * 2 ** 30,
      dataRoots: ["/x", "/y"],
      apiKey: "k",
    });
  });

  it("are not what an export's options of the same names say", () => {
    const { values } = readFlags(["--quantize", "q8_0"], exportModel.flags, {
      ANNEAL_DTYPE: "auto",
      ANNEAL_QUANTIZE: "q4",
    });
    expect(values).toEqual({ quantize: "q8_0" });
  });

  it.each([
    ["--thread", "2"],
    ["--threads"],
    ["--threads", "two"],
    ["--dtype", "fp8"],
    ["--memory-limit", "lots"],
    ["--optimizer", "eps=1"],
    ["--optimizer", "rl.eps=x"],
    ["--adapter-alpha", "0"],
    ["--gpu-layers", "-1"],
    ["--gpu-layers", "1.5"],
    ["--gpu-layers", "all"],
    ["--gpu-layers", "NaN"],
    ["--gpu-layers", ""],
    ["--gpu-layers", "4"],
    ["--gpu-layers", "4", "--device", "cpu"],
    ["--execution-provider", "cuda"],
    ["--onnx-variant", "q4"],
  ])("that cannot be understood, or have no effect, are usage errors: %s %s", (...args) => {
    expect(() => readEngineOptions(readFlags(args, engineFlags, {}).values)).toThrow(UsageError);
  });

  it("of what there is none of may come from the environment, which other commands have, too", () => {
    const { values } = readFlags(["--gpu-layers", "4", "--device", "gpu"], engineFlags, {});
    expect(readEngineOptions(values)).toEqual({ gpuLayers: 4, device: "gpu" });
    vi.stubEnv("ANNEAL_GPU_LAYERS", "4");
    vi.stubEnv("ANNEAL_EXECUTION_PROVIDER", "cuda");
    const onnx = { executionProvider: "cuda" };
    expect(readEngineOptions(readFlags([], engineFlags).values)).toEqual({ gpuLayers: 4, onnx });
    vi.unstubAllEnvs();
  });

  it("of ONNX ask for that of the one model which is named, not of one among several", () => {
    const read = (...args: string[]) => readEngineOptions(readFlags(args, engineFlags, {}).values);
    const [a, b] = [{ path: resolve("a") }, { path: resolve("b") }];
    const onnx = { variant: "q4" };
    expect(read("--model", "a", "--onnx-variant", "q4").models).toEqual([{ ...a, onnx }]);
    expect(read("--model", "a", "--model", "b", "--onnx-variant", "q4")).toEqual({ models: [a, b], onnx });
  });

  it("take no layers of a GPU for an answer, and name the variable that is wrong", () => {
    expect(readEngineOptions(readFlags(["--gpu-layers", "0"], engineFlags, {}).values)).toEqual({ gpuLayers: 0 });
    expect(() => readFlags([], engineFlags, { ANNEAL_GPU_LAYERS: "-2" })).toThrow(/ANNEAL_GPU_LAYERS/);
  });

  it("read sizes and counts", () => {
    expect(["800m", "6GiB", "2k", "1.5g"].map((text) => bytes("SIZE", "").read([text], "x"))).toEqual([
      800 * 2 ** 20,
      6 * 2 ** 30,
      2048,
      1.5 * 2 ** 30,
    ]);
    for (const limit of ["--body-limit", "--chat-body-limit"]) {
      for (const none of ["0", "0GiB", "0.5"]) {
        const read = () => readFlags([limit, none], serve.flags, {});
        expect(read).toThrow(`${limit} takes a size such as 800m or 6GiB, not "${none}"`);
      }
    }
    const count = (text: string, from?: number, to?: number) => integer("N", "", { from, to }).read([text], "--port");
    expect(count("0", 0)).toBe(0);
    expect(() => count("0")).toThrow(UsageError);
    expect(() => count("65536", 0, 65535)).toThrow("--port takes a whole number from 0 to 65535");
  });

  it("take origins as browsers send them, and refuse what is sent by none", () => {
    const flags = { "allow-origin": origins("ORIGIN", "") };
    const read = (given: string) => readFlags(["--allow-origin", given], flags, {}).values["allow-origin"];
    expect(read("https://App.example/, http://localhost:5173,null")).toEqual([
      "https://app.example",
      "http://localhost:5173",
      "null",
    ]);
    expect(read("https://app.example, *")).toBe("*");
    for (const given of ["app.example", "https://app.example/path", "https://a.example,"]) {
      expect(() => read(given)).toThrow(UsageError);
    }
  });
});
