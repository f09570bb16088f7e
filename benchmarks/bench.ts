/**
 * anneal beside its peers, on this machine:
 *
 *   npm run bench -- [--only decode,prefill,lora,loop,start,chats] [--shape qwen3-0.6b] [--program anneal,torch]
 *     [--threads 2] [--rounds 3] [--python FILE]... [--folder CACHE] [--note TEXT] [--print] [--kernels avx2]
 *     [--model FOLDER] [--device vulkan:0] [--precision fast] [--cap N]
 *
 * Peers are taken as they are installed: PyTorch with transformers and peft, TRL, and vLLM, each from the first `--python` that has
 * them (python3 where none is named), node-llama-cpp from the folder NODE_LLAMA_CPP or this one, and onnxruntime-node. All load the same weights (the
 * shape of a published model, random, every layer different), are given the same prompts and threads, and run by turns. `--only` also
 * takes one piece of work, such as rollout-16, or one of other numbers (decode-4x700, rollout-8x1000, prefill-1500, lora-3x333), and
 * `--shape` the config.json of any Llama or Qwen3 model. `--model` measures folders with weights of their own, of any family, in place of
 * shapes, beside PyTorch and vLLM and without a bound. BENCH_VERBOSE=1 shows what programs say. `--kernels` chooses anneal's instructions, and
 * the bound is then by those; results are printed only. `--torch-type float32` has PyTorch compute in that.
 *
 * Where the processor has a matrix unit (AMX), or a GPU cooperative matrices, anneal is measured on it as well, as "anneal fast": with
 * `--precision fast`. Where it has no instructions for bfloat16, also with weights of 16-bit integers, as "anneal int16".
 *
 * `--device vulkan:0` measures a GPU: decode of 1, 16, 64 and 256 sequences, prefill, LoRA steps and an RL step of 64 x 8 rollouts, beside
 * llama.cpp's Vulkan and CUDA builds and PyTorch with CUDA, and beside bounds by what that device was probed at. With `--precision fast`
 * "anneal" is that which multiplies on cooperative matrices, and bounds are by those. `--shape tiny --cap 32` tries all of that on a
 * device in software; `--only rl-16x8x256` is an RL step of other numbers.
 *
 * Results go to benchmarks/results/bench.md and bench.svg (of a GPU, bench-vulkan-0.md), `--print`: to the terminal only. Of every piece of work: the median
 * rate and its spread, processor seconds for 1,000 tokens, and what share of the bound anneal reaches. The bound is the sum over a
 * step's phases of the longer of reading their bytes and doing their operations: at the better of the rates that the machine was probed
 * at just before and after each run, and at the best ones of all. A shared machine changes its pace within seconds.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, tmpdir, totalmem } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { trainingWords } from "../src/cli/demoWords.js";
import { listGpus, measureGpu, openRuntime } from "../src/runtime/runtime.js";
import { type MachineRate, machineProbe } from "./machineProbe.js";
import { randomFolder, shapeOf } from "./modelShapes.js";
import { chats } from "./speed/chats.js";
import { Program, type Run } from "./speed/program.js";
import { chart, type Measured, median, table } from "./speed/report.js";
import { starts } from "./speed/starts.js";
import { heldOut, loop } from "./speed/task.js";
import { boundOf, described, tokensOf, workloadsOf, workNamed } from "./speed/workloads.js";

function optionsOf() {
  try {
    return parseArgs({
      options: {
        only: { type: "string" },
        device: { type: "string", default: "cpu" },
        precision: { type: "string", default: "exact" },
        cap: { type: "string", default: "1000000" },
        shape: { type: "string" },
        model: { type: "string" },
        program: {
          type: "string",
          default:
            "anneal,anneal fast,anneal int16,llama.cpp,llama.cpp vulkan,llama.cpp cuda,onnxruntime,torch,vllm,trl",
        },
        threads: { type: "string", default: String(Math.min(availableParallelism(), 16)) },
        rounds: { type: "string", default: "3" },
        python: { type: "string", multiple: true, default: ["python3"] },
        folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
        note: { type: "string", default: "" },
        print: { type: "boolean", default: false },
        kernels: { type: "string" },
        "torch-type": { type: "string", default: "bfloat16" },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
  } catch (error) {
    console.error(`${(error as Error).message}\nnpm run bench -- --help says what there is`);
    process.exit(2);
  }
}

/** What stands at the top of this file. */
function usage(): string {
  const [comment] = readFileSync(fileURLToPath(import.meta.url), "utf8").split(" */");
  return comment!.replace("/**\n", "").replace(/^ \* ?/gm, "");
}

const options = optionsOf();
if (options.help) {
  process.stdout.write(usage());
  process.exit();
}
const { threads, folder, device, cap } = options;
const isGpu = device !== "cpu";
const gpu = isGpu ? (await listGpus()).find(({ id }) => id === device) : undefined;
const isFast = options.precision === "fast";
if (isFast && !isGpu) {
  throw new RangeError(
    "--precision fast: a GPU's, named by --device; the processor's is measured beside, as \"anneal fast\"",
  );
}
const workloads = workloadsOf(device, Number(cap));
const rounds = Number(options.rounds);
const only = (
  options.only ?? (isGpu ? "decode,prefill,lora,rl" : "decode,rollout,prefill,lora,loop,start,chats")
).split(",");
for (const name of only) {
  const named = workNamed(name);
  if (named) workloads[name] ??= named;
  const known = [...Object.keys(workloads), "loop", "start", "chats"];
  if (!known.some((work) => work === name || work.startsWith(`${name}-`))) {
    throw new RangeError(`--only ${name}: nothing of that name; there are ${known.join(", ")}`);
  }
}
if (options.model && options.shape) throw new RangeError("--model FOLDER takes the place of --shape");
const shapes = (options.shape ?? (isGpu ? "qwen3-0.6b,qwen3-8b" : "smollm2-135m,qwen3-0.6b")).split(",");
const programs = options.program.split(",");
const isWanted = (work: string): boolean =>
  only.some((name) => work === name || (!(name in workloads) && work.startsWith(`${name}-`)));
const say = (line: string): void => void process.stderr.write(`${line}\n`);

/** The first interpreter that has a package; null: none. */
function pythonWith(...packages: string[]): string | null {
  const program = packages.map((name) => `import importlib.util as u; assert u.find_spec("${name}")`).join("\n");
  return options.python.find((python) => spawnSync(python, ["-c", program]).status === 0) ?? null;
}

const here = (file: string): string => join(import.meta.dirname, "speed", file);
const tsx = (file: string, ...args: string[]): string[] => [process.execPath, "--import", "tsx", here(file), ...args];
const python = (packages: string[], file: string, ...args: string[]): string[] | null => {
  const interpreter = pythonWith(...packages);
  return interpreter === null ? null : [interpreter, here(file), ...args];
};

/** Programs that compute with weights, by name. `shape`: whose they are, which some have to know. */
function commands(path: string, shape?: string): Record<string, string[] | null> {
  const ofShape = (file: string, ...args: string[]) => (shape ? tsx(file, path, threads, shape, ...args) : null);
  if (isGpu) {
    const anneal = tsx("anneal.ts", path, threads, device, cap);
    const fast = [...anneal, "--kernels", "fast"];
    return {
      anneal: isFast ? fast : anneal,
      "anneal fast": gpu?.fast && !isFast ? fast : null,
      "llama.cpp vulkan": ofShape("llamaCpp.ts", "vulkan"),
      "llama.cpp cuda": ofShape("llamaCpp.ts", "cuda"),
      torch: python(["torch", "transformers", "peft"], "torch_peer.py", path, threads, "cuda"),
    };
  }
  const kernels = options.kernels ? ["--kernels", options.kernels] : [];
  const { kernelSets, hasMatrixUnit } = openRuntime();
  const widens = !hasMatrixUnit && (options.kernels ?? kernelSets.at(-1)) !== "avx512bf16";
  return {
    anneal: tsx("anneal.ts", path, threads, ...kernels),
    "anneal fast": hasMatrixUnit ? tsx("anneal.ts", path, threads, "--kernels", "fast") : null,
    "anneal int16": widens ? tsx("anneal.ts", path, threads, ...kernels, "--quantize", "int16") : null,
    "llama.cpp": ofShape("llamaCpp.ts"),
    onnxruntime: ofShape("onnxRuntime.ts"),
    torch: python(["torch", "transformers", "peft"], "torch_peer.py", path, threads, "cpu", options["torch-type"]),
    vllm: python(["vllm"], "vllm_peer.py", path, threads),
  };
}

const versions = new Map<string, string>();

async function gpuProbe(): Promise<MachineRate> {
  const { bandwidth, operations, matrixOperations } = await measureGpu(device);
  return { bandwidth: bandwidth / 1e9, operations: (isFast ? matrixOperations : operations) / 1e9 };
}

const better = (a: MachineRate, b: MachineRate): MachineRate => ({
  bandwidth: Math.max(a.bandwidth, b.bandwidth),
  operations: Math.max(a.operations, b.operations),
});

/** What the machine was probed at: `best`, of all times. */
const machineRate = {
  best: { bandwidth: 0, operations: 0 } as MachineRate,
  run: null as (() => MachineRate | Promise<MachineRate>) | null,
  async probe(): Promise<MachineRate> {
    // A GPU keeps its pace.
    if (isGpu && this.best.bandwidth > 0) return this.best;
    this.run ??= isGpu ? gpuProbe : machineProbe(folder, Number(threads), options.kernels);
    const rate = await this.run();
    this.best = better(this.best, rate);
    return rate;
  },
};

async function start(name: string, command: string[] | null): Promise<Program | null> {
  if (command === null || !programs.includes(name)) return null;
  say(`starting ${name}`);
  // Of llama.cpp, which else takes none in software and may take several.
  const env: Record<string, string> = isGpu ? { GGML_VK_VISIBLE_DEVICES: device.replace("vulkan:", "") } : {};
  const program = await Program.start(name, command, env).catch((error: Error) => {
    say(`  left out: ${error.message}`);
    return null;
  });
  const version = program && [program.ready.version, program.ready.note].filter(Boolean).join("; ");
  if (version) versions.set(name, version);
  return program;
}

/** Every program does it once unmeasured, then by turns; what cannot is told and left out. */
async function measure(
  group: string,
  what: string,
  tokens: number,
  started: Program[],
  work: { kind: string },
  boundSeconds: Measured["boundSeconds"] = null,
): Promise<Measured | null> {
  const able = started.filter(({ ready }) => ready.kinds.includes(work.kind));
  const runs = new Map<Program, Run[]>();
  for (const program of able) {
    try {
      if (work.kind !== "loop") await program.run(work);
      runs.set(program, []);
    } catch (error) {
      say(`  ${what}: ${(error as Error).message.slice(0, 300)}`);
    }
  }
  for (let round = 0; round < rounds; round++) {
    for (const [program, own] of runs) {
      try {
        if (!boundSeconds || program.name !== "anneal") {
          own.push(await program.run(work));
          continue;
        }
        const before = await machineRate.probe();
        const run = await program.run(work);
        own.push({ ...run, machine: better(before, await machineRate.probe()) });
      } catch (error) {
        runs.delete(program);
        say(`  ${what}: ${(error as Error).message.slice(0, 300)}`);
      }
    }
  }
  if (runs.size === 0) return null;
  const results = [...runs].map(([{ name }, own]) => ({ program: name, runs: own }));
  const measured = { group, what, results, tokens, boundSeconds };
  say(
    `  ${what}: ${results.map((one) => `${one.program} ${(tokens / median(one.runs.map((r) => r.seconds))).toFixed(1)}/s`).join(", ")}`,
  );
  return measured;
}

const all: Measured[] = [];
const add = (one: Measured | null): void => void (one && all.push(one));

if (Object.keys(workloads).some(isWanted)) {
  const measured: { path: string; shape?: string }[] = options.model
    ? options.model.split(",").map((path) => ({ path }))
    : shapes.map((shape) => ({ path: randomFolder(folder, shape), shape }));
  for (const { path, shape } of measured) {
    const sizes = shape === undefined ? null : shapeOf(shape);
    const started: Program[] = [];
    for (const [name, command] of Object.entries(commands(path, shape))) {
      const program = await start(name, command);
      if (program) started.push(program);
    }
    for (const [name, work] of Object.entries(workloads)) {
      if (!isWanted(name)) continue;
      add(
        await measure(
          basename(path),
          described(work),
          tokensOf(work),
          started,
          work,
          sizes && ((rate) => boundOf(sizes, work, rate)),
        ),
      );
    }
    for (const program of started) await program.end();
  }
}

let scores: string[] = [];
if (isWanted("loop")) {
  const words = JSON.stringify({ training: trainingWords, heldOut: heldOut.map(({ word }) => word) });
  const model = join(import.meta.dirname, "..", "models", "tiny");
  const started: Program[] = [];
  for (const [name, command] of Object.entries({
    anneal: tsx("learningLoop.ts", threads),
    trl: python(["trl", "torch", "peft", "datasets"], "trl_peer.py", model, threads, words),
  })) {
    const program = await start(name, command);
    if (program) started.push(program);
  }
  const what = `GRPO, ${loop.steps} steps of ${loop.groups} x ${loop.group} rollouts, rollouts a second`;
  const measured = await measure("embedded model", what, loop.steps * loop.groups * loop.group, started, loop);
  add(measured);
  scores = (measured?.results ?? []).map(({ program, runs }) => {
    const score = (key: "before" | "after") =>
      `${(100 * median(runs.map((run) => (run as unknown as Record<string, number>)[key]!))).toFixed(0)} %`;
    return `${program}: ${score("before")} of the held-out words right before, ${score("after")} after.`;
  });
  for (const program of started) await program.end();
}

const lines: string[] = [];
if (isWanted("chats")) lines.push(await chats(rounds));
if (isWanted("start")) lines.push(...(await starts(rounds)));
for (const line of lines) say(`  ${line}`);

const model = cpus()[0]?.model.trim() ?? "unknown processor";
const computing = gpu
  ? `${gpu.name} (${gpu.driver}), ${(gpu.memory / 2 ** 30).toFixed(0)} GiB, ${gpu.exact ? "" : "in"}exact; `
  : "";
const name = isGpu ? `bench-${device.replace(":", "-")}${isFast ? "-fast" : ""}` : "bench";
const machine = `${computing}${model}, ${availableParallelism()} processors, ${threads} threads used, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, Node ${process.versions.node}, ${process.platform}-${process.arch}`;
const { bandwidth, operations } = machineRate.best;
const limits =
  bandwidth > 0
    ? [
        `- the ${isGpu ? "device" : "machine"} at its best: ${bandwidth.toFixed(0)} GB/s, ${operations.toFixed(0)} GFLOP/s${isFast ? " on cooperative matrices" : ""}`,
      ]
    : [];
const notes = [...versions].map(([name, version]) => `- ${name}: ${version}`);
const document = [
  "# anneal beside its peers",
  `${machine}. ${new Date().toISOString().slice(0, 10)}. ${options.note}`.trim(),
  'Printed by `npm run bench`, which says how: same weights, prompts and threads, by turns. anneal and llama.cpp by their cores, PyTorch\nby transformers and peft, ONNX Runtime on exported graphs, vLLM by requests to its engine. A ratio above 1 says that anneal is faster, below 1 that the peer is. "anneal fast" is `--precision fast`, of devices with a matrix unit; "anneal int16" is `--quantize int16`.',
  [...notes, ...limits].join("\n"),
  ...(all.length > 0 ? [`![rates](${name}.svg)`, table(all, machineRate.best)] : []),
  scores.join("\n"),
  lines.map((line) => `- ${line}`).join("\n"),
].filter(Boolean);
if (options.print || options.kernels) console.log(document.join("\n\n"));
else {
  const results = join(import.meta.dirname, "results", name);
  writeFileSync(`${results}.md`, `${document.join("\n\n")}\n`);
  if (all.length > 0) writeFileSync(`${results}.svg`, chart(all, machine, machineRate.best));
  say(`written: ${results}.md`);
}
