/**
 * How fast quantised weights are beside llama.cpp on the same GGUF files, and whether that is within the gates:
 *
 *   NODE_LLAMA_CPP=FOLDER npx tsx benchmarks/quantizedSpeed.ts [--shape qwen3-0.6b,smollm2-135m] [--type q8_0,q4_k_m]
 *     [--only decode-1,decode-8,decode-16,prefill-512,lora-4x256] [--kernels avx2] [--threads 2] [--rounds 3] [--folder CACHE]
 *
 * Files hold random weights, made once. By turns; of every piece of work the median rate and the processor seconds of a token. The bound of a
 * decode step is reading the file and the cache at the best rate that the machine was probed at during the run. `--kernels` chooses anneal's
 * instructions; llama.cpp takes the best of the libraries beside it: for its AVX2, give it a folder in which only that of "haswell" and
 * older ones are left. Exits with 1 where a gate is missed.
 */
import { statSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { machineProbe } from "./machineProbe.js";
import { randomFolder, shapeOf, shareRead } from "./modelShapes.js";
import { Program, type Run } from "./speed/program.js";
import { median } from "./speed/report.js";
import { type ShapeType, shapeGguf } from "./speed/shapeGguf.js";
import { cacheBytes, tokensOf, type Work, workloadsOf } from "./speed/workloads.js";

const { values: options } = parseArgs({
  options: {
    shape: { type: "string", default: "smollm2-135m,qwen3-0.6b" },
    type: { type: "string", default: "q8_0,q4_k_m" },
    only: { type: "string", default: "decode-1,decode-8,decode-16,prefill-512,lora-4x256" },
    kernels: { type: "string", default: "" },
    threads: { type: "string", default: String(Math.min(availableParallelism(), 16)) },
    rounds: { type: "string", default: "3" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
  },
});
const { threads, folder } = options;
const workloads = workloadsOf("cpu");
const only = options.only.split(",");

/** How many times as fast as llama.cpp, at least. */
const GATES: Record<string, number> = { "decode-1": 1.5, "decode-8": 3, "decode-16": 3, "prefill-512": 2 };
/** Or so much of the bound, where one sequence decodes. */
const BOUND_SHARE = 0.85;
/** A LoRA step on Q8_0 beside one on bfloat16: how many times as fast at least, and how much of its memory at most. */
const LORA = { faster: 1.2, memory: 0.6 };

interface Measured {
  seconds: number;
  cpuSeconds: number;
  peakBytes: number;
}

const probe = machineProbe(folder, Number(threads));
let bandwidth = 0;
let failures = 0;

function print(cells: string[], passes: boolean) {
  if (!passes) failures++;
  console.log(`| ${[...cells, passes ? "pass" : "FAIL"].join(" | ")} |`);
}

const start = async (name: string, file: string, ...args: string[]): Promise<Program> => {
  const path = join(import.meta.dirname, "speed", file);
  return Program.start(name, [process.execPath, "--import", "tsx", path, ...args], {});
};
const kernels = options.kernels ? ["--kernels", options.kernels] : [];
const anneal = (path: string) => start("anneal", "anneal.ts", path, threads, ...kernels);

/** Both do it once unmeasured, then by turns. */
async function compare(work: Work, ...programs: Program[]): Promise<Measured[]> {
  for (const program of programs) await program.run(work);
  const runs: (Run & Record<string, unknown>)[][] = programs.map(() => []);
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const [i, program] of programs.entries()) {
      bandwidth = Math.max(bandwidth, probe().bandwidth);
      runs[i]!.push(await program.run(work));
    }
  }
  return runs.map((own) => ({
    seconds: median(own.map((run) => run.seconds)),
    cpuSeconds: median(own.map((run) => run.cpuSeconds ?? Number.NaN)),
    peakBytes: Math.max(...own.map((run) => Number(run.peakBytes))),
  }));
}

const short = (value: number) => String(Number(value.toPrecision(3)));
const milliseconds = ({ cpuSeconds }: Measured, work: Work) => short((1000 * cpuSeconds) / tokensOf(work));

console.log(
  "| | | anneal / s | peer / s | faster by | anneal CPU ms | peer CPU ms | less CPU by | of the bound | gate |",
);
console.log("|---|---|---|---|---|---|---|---|---|---|");
for (const shape of options.shape.split(",")) {
  const path = randomFolder(folder, shape);
  const sizes = shapeOf(shape);
  for (const type of options.type.split(",") as ShapeType[]) {
    const file = await shapeGguf(path, sizes, type);
    const wanted = only.filter((name) => name in GATES);
    if (wanted.length === 0) continue;
    const programs = [
      await anneal(file),
      await start("llama.cpp", "llamaCpp.ts", path, threads, shape, "--type", type),
    ];
    for (const name of wanted) {
      const work = workloads[name]!;
      const [ours, theirs] = (await compare(work, ...programs)) as [Measured, Measured];
      const tokens = tokensOf(work);
      const isDecode = work.kind === "decode";
      const weights = statSync(file).size * (isDecode ? shareRead(sizes, work.count) : 1);
      const least = isDecode ? (work.tokens * (weights + cacheBytes(sizes, work))) / (bandwidth * 1e9) : 0;
      const ratio = theirs.seconds / ours.seconds;
      const share = least / ours.seconds;
      print(
        [
          `${shape} ${type}`,
          name,
          short(tokens / ours.seconds),
          short(tokens / theirs.seconds),
          `${ratio.toFixed(2)}x`,
          milliseconds(ours, work),
          milliseconds(theirs, work),
          `${(theirs.cpuSeconds / ours.cpuSeconds).toFixed(2)}x`,
          isDecode ? `${(100 * share).toFixed(0)} %` : "",
        ],
        ratio >= GATES[name]! || (name === "decode-1" && share >= BOUND_SHARE),
      );
    }
    for (const program of programs) await program.end();
  }
  for (const name of only.filter((name) => name.startsWith("lora"))) {
    const work = workloads[name]!;
    const programs = [await anneal(await shapeGguf(path, sizes, "q8_0")), await anneal(path)];
    const [ours, whole] = (await compare(work, ...programs)) as [Measured, Measured];
    for (const program of programs) await program.end();
    const ratio = whole.seconds / ours.seconds;
    const memory = ours.peakBytes / whole.peakBytes;
    print(
      [
        `${shape} q8_0, beside bfloat16`,
        `${name}, ${(100 * memory).toFixed(0)} % of the memory`,
        short(tokensOf(work) / ours.seconds),
        short(tokensOf(work) / whole.seconds),
        `${ratio.toFixed(2)}x`,
        milliseconds(ours, work),
        milliseconds(whole, work),
        `${(whole.cpuSeconds / ours.cpuSeconds).toFixed(2)}x`,
        "",
      ],
      ratio >= LORA.faster && memory <= LORA.memory,
    );
  }
}
process.exitCode = failures > 0 ? 1 : 0;
