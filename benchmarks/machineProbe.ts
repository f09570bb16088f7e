/** What the machine can do right now: shared machines change their pace within minutes. */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { openRuntime } from "../src/runtime/runtime.js";

export interface MachineRate {
  /** 1e9 bytes per second read from memory. */
  bandwidth: number;
  /** 1e9 floating-point operations per second that the kernels could do: bfloat16 pairs where they take these, else float32. */
  operations: number;
}

/** What a kernel set multiplies bfloat16 with: VNNI is of integers alone. */
const arithmeticOf = (kernelSet: string): string => ({ avxvnni: "avx2", avx512vnni: "avx512" })[kernelSet] ?? kernelSet;

/**
 * Compiles the probe into `folder`; what it answers measures for about a second. `kernelSet`: whose operations count; the best one
 * that this machine has where absent. Of the portable kernels nothing is known: their operations are NaN.
 */
export function machineProbe(folder: string, threads: number, kernelSet?: string): () => MachineRate {
  mkdirSync(folder, { recursive: true });
  const program = join(folder, "machineProbe");
  const source = join(import.meta.dirname, "machineProbe.cpp");
  const flags = ["-O3", "-std=c++20", "-march=native", "-pthread"];
  const [compiler, ...words] = (process.env.CXX ?? "c++").split(" ");
  execFileSync(compiler!, [...words, ...flags, "-o", program, source], { stdio: "inherit" });
  const arithmetic = arithmeticOf(kernelSet ?? openRuntime().kernelSets.at(-1)!);
  return () => {
    const printed = execFileSync(program, [String(threads)], { encoding: "utf8" })
      .trim()
      .split("\n");
    const rates = new Map(printed.map((line) => [line.split(" ")[0]!, Number(line.split(" ")[1])]));
    return { bandwidth: rates.get("memory")!, operations: rates.get(arithmetic) ?? Number.NaN };
  };
}
