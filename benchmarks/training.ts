/**
 * Speed and memory of training passes at the shapes of published models, random weights, bfloat16, LoRA of rank 16 on all projections:
 *
 *   npx tsx benchmarks/training.ts [--part step --part long --part prefix] [--shape qwen3-0.6b] [--threads 2] [--repeats 3] [--folder <cache>]
 *
 * - step: forward, backward and AdamW over 4 rows of 256 tokens.
 * - long: the same over one row of 4,096 tokens, under several limits on saved activations; all give the same gradient.
 * - prefix: a group of 8 completions of 64 tokens behind one prompt of 1,024, packed and as separate rows.
 *
 * Every measurement runs in a process of its own: its peak memory is that of the whole process, weights included.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openRuntime, type Trainer, type TrainRow } from "../src/runtime/runtime.js";
import { accumulateGradient } from "../src/training/forwardBackward.js";
import { OPTIMIZER } from "../src/training/optimizer.js";
import type { TokenRow } from "../src/training/rows.js";
import { openWeightFolder } from "../src/weights/index.js";
import { type ModelShape, modelShapes, randomFolder } from "./modelShapes.js";

const { values: options } = parseArgs({
  options: {
    part: { type: "string", multiple: true, default: ["step", "long", "prefix"] },
    shape: { type: "string", default: "qwen3-0.6b" },
    threads: { type: "string" },
    repeats: { type: "string", default: "3" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
    one: { type: "string" },
  },
});
const shape = options.shape as ModelShape;
if (!(shape in modelShapes)) throw new RangeError(`--shape: one of ${Object.keys(modelShapes).join(", ")}`);
const { vocab_size: vocab } = modelShapes[shape];
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
}

const prompt = tokens(1024, 9);
const group = Array.from({ length: 8 }, (_, i) => row(Int32Array.from([...prompt, ...tokens(64, i)]), 64));
const budgets = [2048, 512, 64];
const measurements: Record<string, Measurement> = {
  step: {
    rows: Array.from({ length: 4 }, (_, i) => row(tokens(256, i), 255)),
    keepBytes: 2048 * MiB,
    packed: true,
  },
  packed: { rows: group, keepBytes: 2048 * MiB, packed: true },
  separate: { rows: group, keepBytes: 2048 * MiB, packed: false },
};
for (const budget of budgets) {
  measurements[`long-${budget}`] = { rows: [row(tokens(4096, 0), 4095)], keepBytes: budget * MiB, packed: true };
}

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
  /** Bytes. */
  peak: number;
  gradient: string;
}

async function measure({ rows, keepBytes, packed }: Measurement): Promise<Result> {
  const folder = await openWeightFolder(randomFolder(options.folder, shape));
  const runtime = openRuntime(options.threads ? { threads: Number(options.threads) } : {});
  const { config, tensors: weights } = folder;
  const model = await runtime.load({ config, tensors: weights, dtype: "bfloat16", kvPages: 16 });
  const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
  const trainer = await model.trainAdapter({ rank: 16, alpha: 32, rslora: false, targets }, { seed: 1n });
  const loss = () => ({ gradient: rows.map((row) => Float32Array.from(row.trained, (one) => -one)), metrics: {} });
  const gradient = () =>
    packed
      ? accumulateGradient(trainer, rows, loss, { maxTokens: 16_384, memoryBudget: 0, keepBytes })
      : separateGradient(trainer, rows, keepBytes);
  await gradient();
  const hash = createHash("sha256");
  for (const [name, { data }] of await trainer.read("gradient")) hash.update(name).update(new Uint8Array(data.buffer));
  const times: number[] = [];
  for (let i = 0; i < Number(options.repeats); i++) {
    await trainer.zeroGrad();
    const began = performance.now();
    await gradient();
    await trainer.optimStep({ learningRate: 1e-4, ...OPTIMIZER.rl });
    times.push((performance.now() - began) / 1000);
  }
  trainer.close();
  model.close();
  const status = readFileSync("/proc/self/status", "utf8");
  return {
    seconds: times.sort((a, b) => a - b)[times.length >> 1]!,
    peak: Number(/VmHWM:\s+(\d+) kB/.exec(status)![1]) * 1024,
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
  const show = (what: string, name: string): Result => {
    const result = inProcess(name);
    const count = measurements[name]!.rows.reduce((sum, { tokens }) => sum + tokens.length, 0);
    const rate = (count / result.seconds).toFixed(0);
    const peak = (result.peak / 2 ** 30).toFixed(2);
    console.log(`| ${what} | ${result.seconds.toFixed(2)} | ${rate} | ${peak} | ${result.gradient} |`);
    return result;
  };
  console.log(`${shape}\n\n| | seconds | tokens/s | peak GiB | gradient |\n|---|---|---|---|---|`);
  if (options.part.includes("step")) show("LoRA step, 4 x 256", "step");
  if (options.part.includes("long")) {
    const seen = budgets.map((budget) => show(`1 x 4096, at most ${budget} MiB saved`, `long-${budget}`).gradient);
    if (new Set(seen).size > 1) throw new Error("recomputing layers changed the gradient");
  }
  if (options.part.includes("prefix")) {
    const packed = show("8 x (1024 shared + 64), packed", "packed");
    const separate = show("8 x (1024 shared + 64), separate", "separate");
    console.log(`\nshared prefixes: ${(separate.seconds / packed.seconds).toFixed(1)} times as fast`);
  }
}
