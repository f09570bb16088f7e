import type { Engine } from "../index.js";
import type { DeviceRate } from "../types/devices.js";
import type { TrainingRow } from "../types/trainingSession.js";
import { defineCommand } from "./command.js";
import { engineFlags, readEngineOptions } from "./engineFlags.js";
import { integer } from "./flags.js";
import { json } from "./listing.js";
import { openEngine } from "./openHome.js";
import { ProgressBar } from "./progress.js";

/** Tokens of a prompt, of a reply and of a training row, where the model's context holds as many. */
const PROMPT = 512;
const REPLY = 64;
const ROW = 256;
const ROWS = 4;
/** Replies at once: a GPU is busy with many only. */
const REPLIES = { processor: [1, 8, 16], gpu: [1, 16, 64, 256] };

interface Measured {
  what: string;
  /** Of one run. */
  tokens: number;
  run(repeat: number): Promise<unknown>;
}

export const bench = defineCommand({
  name: "bench",
  summary: "measure a model's speed on this machine",
  details: `Measures a model on this machine: tokens per second of reading prompts, of replies (1, 8 and 16 at once, on a GPU 1,
16, 64 and 256, each after a prompt; without guesses at what follows, unless --speculation asks for them), and of a training step.
Medians, with the slowest and the fastest run in brackets. Of a device that is named, such as vulkan:0, also what its memory and its
multiply-adds reach. Nothing is kept.`,
  flags: { repeats: integer("N", "runs of each measurement (default 3)", { to: 1000 }), json, ...engineFlags },
  async run(values) {
    const isGpu = values.device === "gpu" || values.device?.startsWith("vulkan:") === true;
    const atOnce = isGpu ? REPLIES.gpu : REPLIES.processor;
    const rate = await rateOf(values.device);
    await using engine = await openEngine({
      maxSequences: Math.max(64, ...atOnce),
      // Models repeat themselves after such prompts, which is no measure of other replies.
      speculation: "none",
      ...readEngineOptions(values),
    });
    const { id, max_model_len: context } = (await engine.models.list()).data[0]!;
    if (!values.json) console.log(`${id}, context of ${context} tokens`);
    if (!values.json && rate) console.log(rateLine(values.device!, rate));
    const results: Result[] = [];
    await measure(engine, { id, context, atOnce }, values.repeats ?? 3, (result) => {
      results.push(result);
      if (!values.json) console.log(resultLine(result));
    });
    if (values.json)
      console.log(
        JSON.stringify({ model: id, context, ...(rate && { device: values.device, rate }), results }, null, 2),
      );
    return 0;
  },
});

async function measure(
  engine: Engine,
  { id, context, atOnce }: { id: string; context: number; atOnce: readonly number[] },
  repeats: number,
  tell: (result: Result) => void,
): Promise<void> {
  const report = async (measured: Measured) => tell(await resultOf(measured, repeats));
  const prompt = Math.min(PROMPT, context >> 1);
  const reply = Math.min(REPLY, context >> 2);

  await report({
    what: `prompt of ${prompt} tokens`,
    tokens: prompt,
    run: (repeat) => complete(engine, prompt, 1, `${repeat}`),
  });
  // A page and a token, the same every time: all but the last token of it is read once, in the first run.
  const known = Math.min(65, prompt);
  for (const count of atOnce) {
    await report({
      what: `${count} ${count === 1 ? "reply" : "replies at once"}`,
      tokens: count * reply,
      run: () => Promise.all(Array.from({ length: count }, () => complete(engine, known, reply, "replies"))),
    });
  }
  await measureTraining(engine, id, Math.min(ROW, context), report);
}

/** What a GPU that is named could reach; null of others. */
async function rateOf(device: string | undefined): Promise<DeviceRate | null> {
  if (!device?.startsWith("vulkan:")) return null;
  const { measureDevice } = await import("../index.js");
  return measureDevice(device as `vulkan:${number}`);
}

const giga = (value: number): string => (value / 1e9).toFixed(value < 1e11 ? 1 : 0);

const rateLine = (device: string, rate: DeviceRate): string =>
  [
    `${device} at its best: ${giga(rate.bytes_per_second)} GB/s read`,
    `${giga(rate.operations_per_second)} GFLOP/s of multiply-adds`,
    ...(rate.matrix_operations_per_second === null
      ? []
      : [`${giga(rate.matrix_operations_per_second)} GFLOP/s on cooperative matrices`]),
  ].join(", ");

/** A reply of exactly `reply` tokens to a prompt of exactly `prompt`; `salt` keeps prompts of others out of the cache. */
async function complete(engine: Engine, prompt: number, reply: number, salt: string): Promise<void> {
  const { usage } = await engine.chat.completions.create({
    messages: [{ role: "user", content: "one two three four ".repeat(prompt) }],
    truncate_prompt_tokens: prompt,
    max_completion_tokens: reply,
    ignore_eos: true,
    temperature: 0,
    cache_salt: salt,
  });
  if (usage!.prompt_tokens !== prompt || usage!.completion_tokens !== reply) {
    throw new Error(`measured ${usage!.prompt_tokens} + ${usage!.completion_tokens} tokens, not ${prompt} + ${reply}`);
  }
}

/** Forward, backward and optimizer step of an adapter on all projections. */
async function measureTraining(
  engine: Engine,
  base_model: string,
  length: number,
  report: (measured: Measured) => Promise<void>,
): Promise<void> {
  const model = await engine.models.create({ project: "bench", name: "bench", base_model });
  const prompt = "one two three four ".repeat(length);
  const { tokens } = await engine.tokens.tokenize({ prompt, add_special_tokens: false });
  // Rows that begin alike would share the work.
  const rows = Array.from({ length: ROWS }, (_, i): TrainingRow => {
    return { tokens: tokens.slice(i, i + length), trained: new Uint8Array(length).fill(1) };
  });
  await using session = await engine.training.open(model.id);
  await report({
    what: `training, ${ROWS} rows of ${length} tokens`,
    tokens: ROWS * length,
    async run() {
      await session.forwardBackward(rows, { loss: "cross_entropy" });
      await session.optimStep({ learningRate: 1e-5 });
    },
  });
}

/** Tokens per second. */
interface Result {
  what: string;
  median: number;
  slowest: number;
  fastest: number;
}

/** Runs once unmeasured, then `repeats` times. */
async function resultOf({ what, tokens, run }: Measured, repeats: number): Promise<Result> {
  const rates: number[] = [];
  using bar = new ProgressBar(what);
  for (let repeat = 0; repeat <= repeats; repeat++) {
    bar.show(repeat, repeats + 1);
    const began = performance.now();
    await run(repeat);
    if (repeat > 0) rates.push((1000 * tokens) / (performance.now() - began));
  }
  rates.sort((a, b) => a - b);
  return { what, median: rates[rates.length >> 1]!, slowest: rates[0]!, fastest: rates.at(-1)! };
}

function resultLine({ what, median, slowest, fastest }: Result): string {
  const show = (rate: number) => (rate < 100 ? rate.toFixed(1) : rate.toFixed(0)).padStart(8);
  return `${what.padEnd(32)} ${show(median)} tokens/s  [${show(slowest).trim()} - ${show(fastest).trim()}]`;
}
