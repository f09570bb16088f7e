/** What the machine can do right now: shared machines change their pace within minutes. */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

export interface MachineRate {
  /** 1e9 bytes per second read from memory. */
  bandwidth: number;
  /** 1e9 floating-point operations per second: bfloat16 pairs where the processor has them, else float32. */
  operations: number;
}

/** Compiles the probe into `folder`; what it answers measures for about half a second. */
export function machineProbe(folder: string, threads: number): () => MachineRate {
  mkdirSync(folder, { recursive: true });
  const program = join(folder, "machineProbe");
  const source = join(import.meta.dirname, "machineProbe.cpp");
  const flags = ["-O3", "-std=c++20", "-march=native", "-pthread"];
  execFileSync(process.env.CXX ?? "c++", [...flags, "-o", program, source], { stdio: "inherit" });
  return () => {
    const [bandwidth, operations] = execFileSync(program, [String(threads)], { encoding: "utf8" })
      .split(" ")
      .map(Number);
    return { bandwidth: bandwidth!, operations: operations! };
  };
}
