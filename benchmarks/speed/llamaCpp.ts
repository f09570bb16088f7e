/** llama.cpp by node-llama-cpp as a program that is measured: `llamaCpp.ts FOLDER THREADS SHAPE [vulkan | cuda] [--type q8_0]`. */
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { spreadTokens } from "../decodeBatch.js";
import { shapeOf } from "../modelShapes.js";
import { serve } from "./program.js";
import { type ShapeType, shapeGguf } from "./shapeGguf.js";
import type { DecodeWork, PrefillWork, Work } from "./workloads.js";

const { values: options, positionals } = parseArgs({
  options: { type: { type: "string", default: "bfloat16" } },
  allowPositionals: true,
});
const [folder, threadsText, shapeName, gpu] = positionals;
const type = options.type as ShapeType;
const threads = Number(threadsText);
const c = shapeOf(shapeName!);

// A peer that this repository does not depend on: found from where the benchmark was started, or where it is told.
interface Sequence {
  evaluate(tokens: number[], options: object): AsyncIterable<number>;
  evaluateWithoutGeneratingNewTokens(tokens: number[]): Promise<void>;
  readonly nextTokenIndex: number;
  eraseContextTokenRanges(ranges: { start: number; end: number }[]): Promise<void>;
}
interface Context {
  getSequence(): Sequence;
  dispose(): Promise<void>;
}
interface Llama {
  loadModel(options: object): Promise<{ createContext(options: object): Promise<Context> }>;
}

const home = process.env.NODE_LLAMA_CPP ?? process.cwd();
const entry = createRequire(pathToFileURL(`${home}/`)).resolve("node-llama-cpp");
const { getLlama } = (await import(pathToFileURL(entry).href)) as { getLlama(options: object): Promise<Llama> };
const { version } = createRequire(pathToFileURL(entry))("../package.json") as { version: string };

const llama = await getLlama({ gpu: gpu ?? false, build: "never", maxThreads: threads, logLevel: "error" });
const model = await llama.loadModel({ modelPath: await shapeGguf(folder!, c, type), gpuLayers: gpu ? "max" : 0 });

async function openSequences(count: number, contextSize: number): Promise<{ context: Context; sequences: Sequence[] }> {
  const options = { contextSize, sequences: count, batchSize: 512, threads, flashAttention: true };
  const context = await model.createContext(options);
  return { context, sequences: Array.from({ length: count }, () => context.getSequence()) };
}

const prompt = (count: number, salt: number): number[] => [...spreadTokens(count, c.vocab_size, salt)];

/** The prompts of the latest work, which its next run goes on from again. */
let kept: { of: string; context: Context; sequences: Sequence[] } | undefined;

async function decode(work: DecodeWork) {
  const { count, context, tokens, shared } = work;
  const began = performance.now();
  const of = JSON.stringify(work);
  const before = context - 1;
  if (kept?.of !== of) {
    await kept?.context.dispose();
    kept = { of, ...(await openSequences(count, context + tokens + 8)) };
    for (const [i, sequence] of kept.sequences.entries()) {
      await sequence.evaluateWithoutGeneratingNewTokens(prompt(context, shared ? 0 : i).slice(0, before));
    }
  }
  const { sequences } = kept;
  for (const sequence of sequences) {
    const end = sequence.nextTokenIndex;
    if (end > before) await sequence.eraseContextTokenRanges([{ start: before, end }]);
  }
  const from = performance.now();
  await Promise.all(
    sequences.map(async (sequence, i) => {
      let made = 0;
      const given = prompt(context, shared ? 0 : i).slice(before);
      for await (const token of sequence.evaluate(given, { temperature: 0, yieldEogToken: true })) {
        void token;
        if (++made === tokens) break;
      }
    }),
  );
  const end = performance.now();
  return { seconds: (end - from) / 1000, share: (end - from) / (end - began) };
}

async function prefill({ context: length }: PrefillWork) {
  const { context, sequences } = await openSequences(1, length + 8);
  const from = performance.now();
  await sequences[0]!.evaluateWithoutGeneratingNewTokens(prompt(length, 0));
  const seconds = (performance.now() - from) / 1000;
  await context.dispose();
  return { seconds };
}

await serve(
  { version: `node-llama-cpp ${version}`, kinds: ["decode", "prefill"], note: gpu ? `${type}, ${gpu}` : type },
  async (work: Work) => (work.kind === "decode" ? decode(work) : prefill(work as PrefillWork)),
);
process.exit(0);
