/**
 * Structured outputs: preparing a vocabulary, compiling schemas, masks, and what they cost a batch.
 *
 *   npx tsx benchmarks/grammar.ts [--peers <folder>] [--vocabulary 150000] [--schemas 300] [--instances 3]
 *     [--published <folder>] [--every 12] [--any-order] [--batch 32] [--steps 24] [--shape qwen3-0.6b --shape smollm2-135m --shape embedded]
 *
 * With --peers, a folder where `npm install @mlc-ai/web-xgrammar js-tiktoken` was run: the vocabulary is that of a
 * published tokenizer, and the same schemas go through web-xgrammar as well. --batch 0 leaves the
 * models out. What a batch draws is spread over all that a schema permits: the models' weights are random, and the embedded
 * one meets a vocabulary that is not its own.
 * With --published, a folder of files as JSONSchemaBench's maskbench/data has them (schemas with valid and invalid
 * instances): every so many of them, and nothing else. Times are of the processor, where it is less than the clock's.
 * Grammars are compiled one after the other, none twice; masks are those met along valid instances, as many of each
 * schema as --instances says (of ours; 0: grammars are only compiled).
 */
import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { compileGrammar, type GrammarVocabulary, prepareVocabulary } from "../src/runtime/runtime.js";
import { type ConstraintSetting, constraintGrammar, encodeGrammar } from "../src/structuredOutputs/index.js";
import { batchCost } from "./grammar/batch.js";
import { type Figures, noFigures, show } from "./grammar/figures.js";
import { publishedCases } from "./grammar/published.js";
import { measurePublished } from "./grammar/publishedFigures.js";
import { schemaCases } from "./grammar/schemas.js";
import { type BenchmarkVocabulary, benchmarkVocabulary, LongestMatch } from "./grammar/vocabulary.js";
import { randomFolder } from "./modelShapes.js";

const EMBEDDED = "embedded";

const { values: options } = parseArgs({
  options: {
    peers: { type: "string" },
    vocabulary: { type: "string", default: "150000" },
    published: { type: "string" },
    every: { type: "string", default: "12" },
    "any-order": { type: "boolean", default: false },
    schemas: { type: "string", default: "300" },
    instances: { type: "string", default: "3" },
    batch: { type: "string", default: "32" },
    shape: { type: "string", multiple: true, default: ["qwen3-0.6b", "smollm2-135m", EMBEDDED] },
    steps: { type: "string", default: "24" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
  },
});
const format = {
  whitespacePattern: null,
  disableAnyWhitespace: false,
  disableAdditionalProperties: false,
  anyOrder: false,
};
const setting: ConstraintSetting = { specialTokens: new Map(), thoughts: null };

/** `size` >= the vocabulary's: the ids beyond have no bytes. */
async function prepare({ tokens, end }: BenchmarkVocabulary, size: number): Promise<GrammarVocabulary> {
  const offsets = new Int32Array(size + 1);
  for (let i = 0; i < size; i++) offsets[i + 1] = offsets[i]! + (tokens[i]?.length ?? 0);
  return prepareVocabulary({
    tokens: Buffer.concat(tokens),
    offsets,
    special: Int32Array.of(end),
    end: Int32Array.of(end),
  });
}

async function own(vocabulary: BenchmarkVocabulary, schemas: number): Promise<Figures> {
  const figures = noFigures();
  const matching = new LongestMatch(vocabulary.tokens.slice(0, -1));
  let began = performance.now();
  const prepared = await prepare(vocabulary, vocabulary.tokens.length);
  figures.prepare = performance.now() - began;
  const mask = new Uint32Array(Math.ceil(vocabulary.tokens.length / 32));
  for (const { schema, texts } of schemaCases(schemas)) {
    began = performance.now();
    const program = encodeGrammar(constraintGrammar({ kind: "json_schema", schema, format }, setting));
    const compiled = await compileGrammar(prepared, program);
    figures.compile.push(performance.now() - began);
    for (const text of texts.slice(0, Number(options.instances))) {
      const matcher = compiled.matcher();
      for (const id of [...matching.encode(text), vocabulary.end]) {
        began = performance.now();
        matcher.mask(mask);
        figures.mask.push(performance.now() - began);
        if (matcher.accept(id)) continue;
        figures.wrong++;
        break;
      }
    }
  }
  return figures;
}

/** A process per stretch between two schemas that end it, or that take longer than a minute. */
async function peer(folder: string, size: number, schemas: number): Promise<Figures> {
  const figures = noFigures();
  for (let next = 0; next < schemas; ) {
    const script = join(import.meta.dirname, "grammar/peer.ts");
    const args = [...process.execArgv, script, folder, String(size), String(schemas), String(next)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
    const startOf = () => setTimeout(() => child.kill("SIGKILL"), 60_000);
    let limit = startOf();
    for await (const line of createInterface({ input: child.stdout })) {
      clearTimeout(limit);
      limit = startOf();
      const told = JSON.parse(line) as Partial<{ number: number; refused: true; wrong: number; mask: number[] }> & {
        prepare?: number;
        compile?: number;
      };
      if (told.prepare !== undefined) figures.prepare = told.prepare;
      if (told.number === undefined) continue;
      next = told.number + 1;
      if (told.refused) figures.refused++;
      else {
        figures.compile.push(told.compile!);
        for (const time of told.mask!) figures.mask.push(time);
        figures.wrong += told.wrong!;
      }
    }
    clearTimeout(limit);
    if (next < schemas) {
      figures.crashed++;
      next++;
    }
  }
  return figures;
}

const size = Number(options.vocabulary);
const vocabulary = await benchmarkVocabulary(options.peers, size);
if (options.published !== undefined) {
  console.log(`${vocabulary.tokens.length} tokens (${vocabulary.name})\n`);
  const cases = publishedCases(options.published, Number(options.every));
  const prepared = await prepare(vocabulary, vocabulary.tokens.length);
  await measurePublished(cases, vocabulary, prepared, { ...format, anyOrder: options["any-order"] });
  process.exit();
}
console.log(`${vocabulary.tokens.length} tokens (${vocabulary.name}), ${options.schemas} schemas\n`);
console.log(
  "| | preparation | compile 50 % / 99 % | mask 50 % / 99 % / 99.9 % | compiled / refused / crashed | wrong |",
);
console.log("|---|---|---|---|---|---|");
if (Number(options.schemas) > 0) show("anneal", await own(vocabulary, Number(options.schemas)));
if (options.peers !== undefined && Number(options.schemas) > 0) {
  show("web-xgrammar", await peer(options.peers, size, Number(options.schemas)));
}
if (Number(options.batch) > 0) {
  const schema = schemaCases(1)[0]!.schema;
  const list = { type: "array", items: schema, minItems: 1000 };
  const program = encodeGrammar(constraintGrammar({ kind: "json_schema", schema: list, format }, setting));
  for (const name of options.shape) {
    await batchCost({
      name,
      folder: name === EMBEDDED ? join(import.meta.dirname, "../models/tiny") : randomFolder(options.folder, name),
      sequences: Number(options.batch),
      steps: Number(options.steps),
      grammarOf: async (modelSize) => {
        const fitting = await benchmarkVocabulary(options.peers, Math.min(size, modelSize));
        return compileGrammar(await prepare(fitting, modelSize), program);
      },
    });
  }
}
