import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { compile, compilerFor } from "../../native/compile.mjs";
import { emulatorEnvironment, emulatorOf, platformOf, TARGET } from "./target.js";

/**
 * The test programs of the compute core, linked with the very objects the addon is made of. They need what installing
 * needed: a C++20 compiler. (Not on Windows, where the objects lie elsewhere; Windows' programs are tried from Linux.)
 */
const native = join(import.meta.dirname, "../../native");
/** The rooms that devices are made of. */
const DEVICES = ["backends", "executor", "model", "quantization", "sampling"];
const objectsFolder = join(native, "build", TARGET ?? "Release", "objects");
const kernelTests = readdirSync(join(native, "backends/cpu/kernels"))
  .filter((name) => name.endsWith(".cpp") && /_(test|bench)\./.test(name))
  .map((name) => `backends/cpu/kernels/${name}`);
const platform = TARGET === undefined ? process.platform : platformOf(TARGET);
/** May be a launcher and its compiler: "ccache g++". */
const compiler = () => (TARGET === undefined ? (process.env.CXX ?? "c++").split(" ") : compilerFor(TARGET));

/** Of a room's sources; objects of sources that are gone may still lie there. */
function objects(room: string): string[] {
  return readdirSync(join(native, room), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".cpp") && !/_(test|bench|reference)\./.test(name))
    .map((name) => join(objectsFolder, room, name.replace(/\.cpp$/, ".o")))
    .filter(existsSync);
}

/** Compiles and links a program; answers with its output, or throws with it when a check failed. */
function run(name: string, sources: string[], rooms: string[], args: string[] = []): string {
  const out = join(native, "build/programs");
  mkdirSync(out, { recursive: true });
  const program = join(out, TARGET === undefined ? name : `${name}-${TARGET}.exe`);
  const [launcher, ...rest] = compiler();
  execFileSync(
    launcher!,
    [
      ...rest,
      "-std=c++20",
      "-O1",
      "-ffp-contract=off",
      "-o",
      program,
      ...sources.map((source) => join(native, source)),
      ...rooms.flatMap(objects),
      "-pthread",
      ...(platform === "win32" ? ["-lpsapi"] : platform === "linux" ? ["-ldl"] : []),
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  const [first, ...others] = [...(TARGET === undefined ? [] : emulatorOf(TARGET)), program, ...args];
  const { status, signal, stdout } = spawnSync(first!, others, {
    encoding: "utf8",
    env: emulatorEnvironment(),
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0) throw new Error(`${name} ended with ${status ?? signal}:\n${stdout}`);
  return stdout.replaceAll("\r\n", "\n");
}

/** Emulated, they take some ten times as long. */
const TIMEOUT = TARGET === undefined ? 1_800_000 : 3_600_000;

describe.skipIf(process.platform === "win32")("programs of the compute core", { timeout: TIMEOUT }, () => {
  beforeAll(async () => {
    if (TARGET !== undefined) await compile({ target: TARGET });
  }, TIMEOUT);

  test("the sampler follows its rules", () => {
    expect(run("sampler_test", ["backends/cpu/sampler_test.cpp"], DEVICES)).toMatch(/^ok$/m);
  });

  // On Linux, where a limit of memory keeps threads from starting.
  test.skipIf(platform !== "linux")("the executor does with the threads it gets", () => {
    const output = run("executor_test", ["executor/executor_test.cpp"], ["executor"]);
    expect(TARGET === undefined ? output : output.replace("limits of memory are not kept here\n", "")).toBe(
      "all passed\n",
    );
  });

  test("steps and slots work over any device", () => {
    const rooms = ["inference", "grammar", "sampling", "model", "executor"];
    expect(run("inference_test", ["inference/inference_test.cpp"], rooms)).toMatch(/^all passed\n$/);
  });

  test("rows, passes and trainers do, and gradients are the loss's derivatives", () => {
    const rooms = ["training", ...DEVICES];
    expect(run("training_test", ["training/training_test.cpp"], rooms)).toMatch(/^all passed\n$/);
  });

  test("lists of weights are held to the model, and files are read as they are", () => {
    const folder = mkdtempSync(join(tmpdir(), "anneal-weights-"));
    try {
      const rooms = ["weights", "model", "quantization", "executor"];
      const packed = join(import.meta.dirname, "../reference/packed/matrices");
      expect(run("weights_test", ["weights/weights_test.cpp"], rooms, [folder, packed])).toMatch(/^all passed\n$/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("grammars permit what a second reading of them permits", () => {
    const sources = ["grammar_test", "grammar_random_test", "grammar_reference"].map((name) => `grammar/${name}.cpp`);
    expect(run("grammar_test", sources, ["grammar", "executor"], ["100"])).toMatch(
      /random grammars: [1-9]\d* followed/,
    );
  });

  test("every kernel is right, with the same bits on every instruction set", () => {
    const blocks = join(import.meta.dirname, "../reference/quantized/blocks");
    const rooms = ["backends/cpu/kernels", "executor", "quantization"];
    expect(run("kernels_test", kernelTests, rooms, [blocks])).toMatch(/[1-9]\d* checks, 0 failed/);
  });

  test("the decoder gives PyTorch's numbers, and one set of bits in every pass", () => {
    const reference = join(import.meta.dirname, "../reference/models");
    const sources = ["decoder_test", "bits_test", "training_bits_test", "quantized_model_test"].map(
      (name) => `backends/cpu/${name}.cpp`,
    );
    const output = run("decoder_test", sources, DEVICES, [reference]);
    expect(output).toMatch(/all passed\n$/);
  });

  test("Vulkan's declarations are those of its headers, where there are any", () => {
    expect(run("vulkan_api_test", ["backends/vulkan/api_test.cpp"], [])).toMatch(/the same|not compared/);
  });

  test("a GPU computes with the processor's bits", () => {
    expect(run("vulkan_test", ["backends/vulkan/vulkan_test.cpp"], DEVICES)).toMatch(/^ok$/m);
  });

  test("what a GPU has no memory for, and what its driver fails at, is told and survived in every call", () => {
    expect(run("vulkan_faults_test", ["backends/vulkan/faults_test.cpp"], DEVICES)).toMatch(/^ok$/m);
  });

  test("a GPU multiplies codes of every quantised format, in every way it has, as they are multiplied one by one", () => {
    expect(run("vulkan_products_test", ["backends/vulkan/products_test.cpp"], DEVICES)).toMatch(/^ok$/m);
  });

  test("a GPU samples rows of logits as the processor does", () => {
    expect(run("vulkan_sampler_test", ["backends/vulkan/row_sampler_test.cpp"], DEVICES)).toMatch(/^ok$/m);
  });

  // A weak symbol could be replaced at link time by a copy compiled for another instruction set.
  test("kernel objects hold no weak symbols", () => {
    const kernels = [
      "portable",
      "neon",
      "neon_dotprod",
      "neon_i8mm",
      "avx2",
      "avxvnni",
      "avx512",
      "avx512vnni",
      "avx512bf16",
    ];
    const objects = [
      ...kernels.map((set) => `backends/cpu/kernels/isa_${set}.o`),
      ...["avx2", "avx512"].map((set) => `quantization/fit_${set}.o`),
    ];
    for (const name of objects) {
      const object = join(objectsFolder, name);
      if (!existsSync(object)) continue;
      const symbols = execFileSync("nm", ["-C", object], { encoding: "utf8" });
      expect(symbols.split("\n").filter((line) => / [WVu] /.test(line))).toEqual([]);
    }
  });
});
