/**
 * Speed and memory of training passes at the shapes of published models, random weights, bfloat16, LoRA of rank 16 on all projections:
 *
 *   npx tsx benchmarks/training.ts [--part step --part long --part batch --part prefix] [--shape qwen3-0.6b] [--threads 2] [--repeats 3] [--folder <cache>]
 *
 * - step: forward, backward and AdamW over 4 rows of 256 tokens.
 * - long: the same over one row of 4,096 tokens, under several limits on saved activations; all give the same gradient.
 * - batch: the same over 12 rows of 512 tokens, as a loss that is separable by row and as one that is not.
 * - prefix: a group of 8 completions of 64 tokens behind one prompt of 1,024, packed and as separate rows.
 *
 * Every measurement runs in a process of its own: its peak memory is that of the whole process, weights included. CPU seconds
 * are those of all threads. The bound is the sum over a step's phases of the longer of reading their bytes and doing their
 * operations, at the rates that the machine shows just before.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openRuntime, type Trainer, type TrainRow } from "../src/runtime/runtime.js";
import { accumulateGradient, type LossFunction } from "../src/training/forwardBackward.js";
import { crossEntropyLoss } from "../src/training/losses.js";
import { OPTIMIZER } from "../src/training/optimizer.js";
import { passSizes } from "../src/training/passLimits.js";
import type { TokenRow } from "../src/training/tokenRow.js";
import { openWeightFolder } from "../src/weights/index.js";
import { residentMemory } from "../test/native/residentMemory.js";
import { machineProbe } from "./machineProbe.js";
import { randomFolder, shapeOf } from "./modelShapes.js";
import { median } from "./speed/report.js";
import { boundOf, type LoraWork } from "./speed/workloads.js";

const { values: options } = parseArgs({
  options: {
    part: { type: "string", multiple: true, default: ["step", "long", "batch", "prefix"] },
    shape: { type: "string", default: "qwen3-0.6b" },
    threads: { type: "string" },
    repeats: { type: "string", default: "3" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
    one: { type: "string" },
  },
});
const shape = options.shape;
const sizes = shapeOf(shape);
const { vocab_size: vocab } = sizes;
const MiB = 2 ** 20;

const token = (i: number, salt: number): number => (Math.imul(i + 1, 2654435761) + Math.imul(salt + 1, 40503)) >>> 0;
const tokens = (length: number, salt: number): Int32Array =>
  Int32Array.from({ length }, (_, i) => token(i, salt) % vocab);

/** A row whose last `trained` tokens are trained. */
function row(content: Int32Array, trained: number): TokenRow {
  const mask = new Uint8Array(content.length).fill(1, content.length - trained);
  mask[0] = 0;
  return { tokens: content, trained: mask };
}

interface Measurement {
  rows: TokenRow[];
  /** Bytes of saved activations; 0: no limit. */
  keepBytes: number;
  /** Whether rows share their beginnings. */
  packed: boolean;
  /** Whether the loss is taken for one that looks at all rows. */
  inseparable?: boolean;
  /** What the bound is of. */
  work?: LoraWork;
}

const prompt = tokens(1024, 9);
const group = Array.from({ length: 8 }, (_, i) => row(Int32Array.from([...prompt, ...tokens(64, i)]), 64));
const RANK = 16;
const lora = (count: number, context: number): LoraWork => ({ kind: "lora", count, context, rank: RANK });
/** In MiB; 0: no limit. */
const budgets = [0, 2048, 512, 64];
const measurements: Record<string, Measurement> = {
  step: {
    rows: Array.from({ length: 4 }, (_, i) => row(tokens(256, i), 255)),
    keepBytes: 2048 * MiB,
    packed: true,
    work: lora(4, 256),
  },
  packed: { rows: group, keepBytes: 2048 * MiB, packed: true },
  separate: { rows: group, keepBytes: 2048 * MiB, packed: false },
};
for (const budget of budgets) {
  measurements[`long-${budget}`] = {
    rows: [row(tokens(4096, 0), 4095)],
    keepBytes: budget * MiB,
    packed: true,
    work: lora(1, 4096),
  };
}
const batch = Array.from({ length: 12 }, (_, i) => row(tokens(512, i), 511));
measurements.separable = { rows: batch, keepBytes: 2048 * MiB, packed: true, work: lora(12, 512) };
measurements.inseparable = { ...measurements.separable, inseparable: true };

/** One pass for all rows, each of them whole. */
async function separateGradient(trainer: Trainer, rows: readonly TokenRow[], keepBytes: number): Promise<void> {
  // On the device, entry t is about the token that follows token t.
  const whole: TrainRow[] = rows.map(({ tokens, trained }) => ({
    tokens,
    trained: Uint8Array.from(trained, (_, t) => trained[t + 1] ?? 0),
  }));
  const pass = await trainer.forward(whole, { keepBytes });
  await pass.backward(whole.map(({ trained }) => Float32Array.from(trained!, (one) => -one)));
  pass.close();
}

interface Result {
  seconds: number;
  cpuSeconds: number;
  /** Bytes. */
  peak: number;
  gradient: string;
}

async function measure({ rows, keepBytes, packed, inseparable }: Measurement): Promise<Result> {
  const folder = await openWeightFolder(randomFolder(options.folder, shape));
  const runtime = openRuntime(options.threads ? { threads: Number(options.threads) } : {});
  const { config, tensors: weights } = folder;
  const model = await runtime.load({ config, tensors: weights, dtype: "bfloat16", kvPages: 16 });
  const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
  const trainer = await model.trainAdapter({ rank: RANK, alpha: 32, rslora: false, targets }, { seed: 1n });
  const byRow = crossEntropyLoss(rows);
  const loss: LossFunction = inseparable ? (values) => byRow(values) : byRow;
  const gradient = () =>
    packed
      ? accumulateGradient(trainer, rows, loss, {
          ...passSizes({ contextLength: 0, device: model }),
          memoryBudget: 0,
          keepBytes,
        })
      : separateGradient(trainer, rows, keepBytes);
  await gradient();
  const hash = createHash("sha256");
  for (const [name, { data }] of await trainer.read("gradient")) hash.update(name).update(new Uint8Array(data.buffer));
  const times: number[] = [];
  const cpuTimes: number[] = [];
  for (let i = 0; i < Number(options.repeats); i++) {
    await trainer.zeroGrad();
    const began = performance.now();
    const usage = process.cpuUsage();
    await gradient();
    await trainer.optimStep({ learningRate: 1e-4, ...OPTIMIZER.rl });
    times.push((performance.now() - began) / 1000);
    const { user, system } = process.cpuUsage(usage);
    cpuTimes.push((user + system) / 1e6);
  }
  trainer.close();
  model.close();
  return {
    seconds: median(times),
    cpuSeconds: median(cpuTimes),
    peak: residentMemory().peak,
    gradient: hash.digest("hex").slice(0, 12),
  };
}

function inProcess(name: string): Result {
  const given = Object.entries(options).flatMap(([key, value]) =>
    key === "part" || value === undefined ? [] : [`--${key}`, String(value)],
  );
  const args = [...process.execArgv, fileURLToPath(import.meta.url), ...given, "--one", name];
  const output = execFileSync(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] }).toString();
  return JSON.parse(output.trim().split("\n").at(-1)!) as Result;
}

if (options.one !== undefined) {
  console.log(JSON.stringify(await measure(measurements[options.one]!)));
} else {
  randomFolder(options.folder, shape);
  const probe = machineProbe(options.folder, options.threads ? Number(options.threads) : openRuntime().threads);
  const show = (what: string, name: string): Result => {
    const { work } = measurements[name]!;
    const bound = work ? boundOf(sizes, work, probe()) : null;
    const result = inProcess(name);
    const count = measurements[name]!.rows.reduce((sum, { tokens }) => sum + tokens.length, 0);
    const rate = (count / result.seconds).toFixed(0);
    const peak = (result.peak / 2 ** 30).toFixed(2);
    const share =
      bound === null ? "" : `${(count / bound).toFixed(0)} (${((100 * bound) / result.seconds).toFixed(0)} %)`;
    const cells = [what, result.seconds.toFixed(2), result.cpuSeconds.toFixed(2), rate, share, peak, result.gradient];
    console.log(`| ${cells.join(" | ")} |`);
    return result;
  };
  console.log(
    `${shape}\n\n| | seconds | CPU seconds | tokens/s | bound (share) | peak GiB | gradient |\n|---|---|---|---|---|---|---|`,
  );
  if (options.part.includes("step")) show("LoRA step, 4 x 256", "step");
  if (options.part.includes("long")) {
    const seen = budgets.map(
      (budget) =>
        show(`1 x 4096, ${budget === 0 ? "everything" : `at most ${budget} MiB`} saved`, `long-${budget}`).gradient,
    );
    if (new Set(seen).size > 1) throw new Error("recomputing layers changed the gradient");
  }
  if (options.part.includes("batch")) {
    show("12 x 512, separable by row", "separable");
    show("12 x 512, not separable", "inseparable");
  }
  if (options.part.includes("prefix")) {
    const packed = show("8 x (1024 shared + 64), packed", "packed");
    const separate = show("8 x (1024 shared + 64), separate", "separate");
    console.log(`\nshared prefixes: ${(separate.seconds / packed.seconds).toFixed(1)} times as fast`);
  }
}
