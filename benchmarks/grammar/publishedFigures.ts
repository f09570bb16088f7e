/** Published schemas: how many are right, and what compiling them and the masks along their instances take. */
import { type CompiledGrammar, compileGrammar, type GrammarVocabulary } from "../../src/runtime/runtime.js";
import {
  type ConstraintSetting,
  constraintGrammar,
  encodeGrammar,
  type JsonFormat,
} from "../../src/structuredOutputs/index.js";
import { percentile } from "./figures.js";
import type { PublishedCase } from "./published.js";
import { type BenchmarkVocabulary, LongestMatch } from "./vocabulary.js";

/** Above these, times are counted. */
const LIMITS_MS = { compile: [15, 50], mask: [0.5, 2, 10] };
const MAX_REASONS = 16;

const setting: ConstraintSetting = { specialTokens: new Map(), thoughts: null };

export async function measurePublished(
  cases: Iterable<PublishedCase>,
  vocabulary: BenchmarkVocabulary,
  prepared: GrammarVocabulary,
  format: JsonFormat,
): Promise<void> {
  const matching = new LongestMatch(vocabulary.tokens.slice(0, -1));
  const mask = new Uint32Array(Math.ceil(vocabulary.tokens.length / 32));
  const times = { compile: [] as number[], mask: [] as number[] };
  const count = { all: 0, right: 0, refused: 0, rejected: 0, accepted: 0 };
  /** Why schemas are refused; numbers within the reasons are left out. */
  const reasons = new Map<string, number>();
  const slowest = { compile: ["", 0], mask: ["", 0] } as Record<"compile" | "mask", [name: string, ms: number]>;
  const took = (what: "compile" | "mask", name: string, ms: number) => {
    times[what].push(ms);
    if (ms > slowest[what][1]) slowest[what] = [name, ms];
  };
  for (const { name, schema, instances } of cases) {
    count.all++;
    const compiling = stopwatch();
    let compiled: CompiledGrammar;
    try {
      const program = encodeGrammar(constraintGrammar({ kind: "json_schema", schema, format }, setting));
      compiled = await compileGrammar(prepared, program);
    } catch (error) {
      count.refused++;
      const reason = (error as Error).message.replaceAll(/\d+|".*"/g, "_").slice(0, 100);
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      continue;
    }
    took("compile", name, compiling());
    const wrong = { rejected: 0, accepted: 0 };
    for (const { text, valid } of instances) {
      const matcher = compiled.matcher();
      const isAccepted = [...matching.encode(text), vocabulary.end].every((id) => {
        const masking = stopwatch();
        matcher.mask(mask);
        took("mask", name, masking());
        return matcher.accept(id);
      });
      if (valid && !isAccepted) wrong.rejected++;
      if (!valid && isAccepted) wrong.accepted++;
    }
    if (wrong.rejected > 0) count.rejected++;
    if (wrong.accepted > 0) count.accepted++;
    if (wrong.rejected + wrong.accepted === 0) count.right++;
  }
  const share = (100 * count.right) / count.all;
  console.log(`${count.right} of ${count.all} schemas right (${share.toFixed(1)} %), ${count.refused} refused,`);
  console.log(`a valid instance rejected of ${count.rejected}, an invalid one accepted of ${count.accepted}\n`);
  console.log("| | mean | 50 % | 90 % | 99 % | 99.9 % | most |\n|---|---|---|---|---|---|---|");
  for (const [what, list] of Object.entries(times) as ["compile" | "mask", number[]][]) {
    const mean = list.reduce((sum, one) => sum + one, 0) / list.length;
    const figures = [mean, ...[0.5, 0.9, 0.99, 0.999].map((part) => percentile(list, part)), slowest[what][1]];
    const unit = what === "mask" ? { of: 1000, name: "us" } : { of: 1, name: "ms" };
    const texts = figures.map((one) => (one * unit.of).toFixed(what === "mask" ? 0 : 2));
    console.log(`| ${what}, ${unit.name} | ${texts.join(" | ")} (${slowest[what][0]}) |`);
  }
  for (const [what, limits] of Object.entries(LIMITS_MS) as ["compile" | "mask", number[]][]) {
    const above = limits.map((limit) => `${times[what].filter((one) => one > limit).length} above ${limit} ms`);
    console.log(`\n${what}: ${times[what].length}, of which ${above.join(", ")}`);
  }
  console.log("\nRefused:");
  const common = [...reasons].sort(([, a], [, b]) => b - a).slice(0, MAX_REASONS);
  for (const [reason, schemas] of common) console.log(`${schemas} ${reason}`);
}

/** Milliseconds since the call: of processor time where it is less than that of the clock, as on a busy machine. */
function stopwatch(): () => number {
  const cpu = process.cpuUsage();
  const began = performance.now();
  return () => {
    const elapsed = performance.now() - began;
    const { user, system } = process.cpuUsage(cpu);
    return Math.min(elapsed, (user + system) / 1000);
  };
}
