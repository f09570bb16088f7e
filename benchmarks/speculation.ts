/**
 * What guessing tokens from the text so far (prompt lookup) does to the pace of decoding, at the shape of Qwen3-0.6B, or of the model
 * of a folder:
 *
 *   npx tsx benchmarks/speculation.ts [--quantize q4] [--sequences 1] [--context 256] [--outputs 160] [--turns 3] [--temperature 1] [--model FOLDER]
 *
 * The text that is looked up holds the reply itself, altered in every n-th token, so that guesses hold as often as where a reply
 * copies what it has read with so many changes; "nothing" has no token in common. By turns without and with guesses, of the same
 * seed: the replies are compared. Tokens per second, medians of the turns.
 */
import { parseArgs } from "node:util";
import { MAX_DRAFT_ROWS } from "../src/inference/sequence.js";
import { type DeviceModel, openRuntime } from "../src/runtime/runtime.js";
import { openWeightFiles } from "../src/weights/index.js";
import { formatsByMatrix } from "../src/weights/quantizeFormats.js";
import { plainSlot } from "../test/native/plainSlot.js";
import { openContexts, pagesFor, plainRow, spreadTokens, statesFor } from "./decodeBatch.js";
import { randomFolder } from "./modelShapes.js";
import { quantizationOf } from "./quantizeOption.js";
import { median } from "./speed/report.js";

const { values } = parseArgs({
  options: {
    quantize: { type: "string" },
    sequences: { type: "string", default: "1" },
    context: { type: "string", default: "256" },
    outputs: { type: "string", default: "160" },
    turns: { type: "string", default: "3" },
    temperature: { type: "string", default: "1" },
    model: { type: "string" },
    shape: { type: "string", default: "qwen3-0.6b" },
    folder: { type: "string", default: "/tmp/anneal-benchmarks" },
  },
});
const sequences = Number(values.sequences);
const context = Number(values.context);
const outputs = Number(values.outputs);
const temperature = Number(values.temperature);
/** As many rows as the engine gives to guesses. */
const maxDrafts = Math.max(0, Math.floor(MAX_DRAFT_ROWS / sequences) - 1);
const FIRST = 77;

const { config: spec, tensors } = await openWeightFiles(values.model ?? randomFolder(values.folder!, values.shape!));
const quantization = quantizationOf(values.quantize);
const config = quantization ? { ...spec, quantized: formatsByMatrix(spec, quantization) } : spec;
const kvPages = pagesFor(sequences, context, outputs + 64);
const recurrentStates = statesFor(sequences);
const model: DeviceModel = await openRuntime().load({ config, tensors, dtype: "bfloat16", kvPages, recurrentStates });
const tables = await openContexts(model, sequences, context, outputs + 64);
const own = Int32Array.from(tables.keys());
const begun = own.map((state) => sequences + state);
if (model.recurrentStates > 0) model.copyRecurrentStates(own, begun);

interface Run {
  replies: number[][];
  /** Tokens per second of all sequences. */
  pace: number;
  /** Rows computed because they were guessed, those that came to follow, and steps. */
  drafted: number;
  kept: number;
  steps: number;
}

/** All sequences until the slowest has its outputs, two steps in flight; `lookups` of each, or none. */
async function decode(lookups: Int32Array[] | null): Promise<Run> {
  const replies: number[][] = tables.map(() => []);
  if (model.recurrentStates > 0) model.copyRecurrentStates(begun, own);
  const slots = tables.map((_, s) => model.openSlot(plainSlot({ temperature, seed: BigInt(s) })));
  const run = { drafted: 0, kept: 0, steps: 0 };
  /** Tokens that each has for certain: a step is told no more of the one before it. */
  const known = tables.map(() => 0);
  const next = (tokens: Int32Array | null) =>
    model.step(
      tables.map((blocks, s) => {
        const [position, outputIndex] = [context + known[s]!, known[s]!];
        known[s]!++;
        return {
          ...plainRow,
          slot: slots[s]!,
          tokens,
          blocks,
          recurrent: s,
          position,
          outputIndex,
          maxDrafts: lookups && tokens === null ? maxDrafts : 0,
          lookup: outputIndex === 1 ? (lookups?.[s] ?? null) : null,
        };
      }),
    );
  const began = performance.now();
  let flying = next(Int32Array.of(FIRST));
  // Those that are ahead go on beside the others, as their places in a step would be taken.
  while (Math.min(...replies.map((reply) => reply.length)) < outputs && Math.max(...known) < outputs + 30) {
    const behind = next(null);
    const output = await flying;
    for (const [s, reply] of replies.entries()) {
      const { count = 0, kept = [] } = output.drafts?.[s] ?? {};
      reply.push(...kept.map(({ token }) => token), output.tokens[s]!);
      known[s]! += kept.length;
      run.drafted += count;
      run.kept += kept.length;
    }
    run.steps++;
    flying = behind;
  }
  await flying;
  const seconds = (performance.now() - began) / 1000;
  for (const slot of slots) model.closeSlot(slot);
  const tokens = replies.reduce((sum, reply) => sum + reply.length, 0);
  return { ...run, replies, pace: tokens / seconds };
}

const other = spreadTokens(400, config.vocab, 9);
const { replies } = await decode(null);
const altered = (reply: number[], every: number) =>
  reply.map((token, i) => (i % every === every - 1 ? (token + 1000) % config.vocab : token));
/** The tokens before the reply stand before what is like it, too. */
const before = [1, 2, 3, FIRST];
const lookup = (text: number[]) => Int32Array.from([...other, ...before, ...text, ...other.slice(0, 50), ...before]);

console.log(
  "| the text has | tokens/s without | with | ratio | tokens a step | guesses that held |\n|---|---|---|---|---|---|",
);
for (const [name, every] of [
  ["the reply", Number.POSITIVE_INFINITY],
  ["but for every 64th token", 64],
  ["every 16th", 16],
  ["every 8th", 8],
  ["every 5th", 5],
  ["every 3rd", 3],
  ["nothing of it", 0],
] as const) {
  const lookups = replies.map((reply) => lookup(every === 0 ? [] : altered(reply, every)));
  const pairs: [without: Run, together: Run][] = [];
  for (let turn = 0; turn < Number(values.turns); turn++) pairs.push([await decode(null), await decode(lookups)]);
  for (const [without, together] of pairs) {
    for (const [s, reply] of without.replies.entries()) {
      const count = Math.min(reply.length, together.replies[s]!.length);
      if (reply.slice(0, count).join() !== together.replies[s]!.slice(0, count).join())
        throw new Error("replies differ");
    }
  }
  const without = median(pairs.map(([one]) => one.pace));
  const together = median(pairs.map(([, one]) => one.pace));
  const ratio = median(pairs.map(([a, b]) => b.pace / a.pace));
  const { drafted, kept, steps } = pairs.at(-1)![1];
  const perStep = (kept / sequences + steps) / steps;
  const held = drafted === 0 ? "none made" : `${Math.round((100 * kept) / drafted)} % of ${drafted}`;
  console.log(
    `| ${name} | ${without.toFixed(1)} | ${together.toFixed(1)} | ${ratio.toFixed(2)} | ${perStep.toFixed(1)} | ${held} |`,
  );
}
model.close();
