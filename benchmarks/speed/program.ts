/**
 * A program that is measured: a process that has a model loaded and does what it is told, a line of JSON each. It answers with a
 * line that begins with "@", followed by JSON: once when it is ready, then after every run.
 */
import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import type { MachineRate } from "../machineProbe.js";

/** What a program says when it is ready. */
export interface Ready {
  version: string;
  /** Kinds of work that it does. */
  kinds: string[];
  /** What must be known to read its numbers. */
  note?: string;
}

export interface Run {
  /** Of the work alone, without what comes before it. */
  seconds: number;
  /** Of the process and its children, meanwhile; null: not told by this system. */
  cpuSeconds: number | null;
  /** What the machine did just before or after, the better of both, where it was probed. */
  machine?: MachineRate;
}

export class Program {
  private constructor(
    readonly name: string,
    readonly ready: Ready,
    private readonly child: ChildProcessByStdio<Writable, Readable, Readable>,
    private readonly answers: AsyncIterator<string>,
    private readonly lines: Interface,
  ) {}

  /** @throws Error with what it said last, when it is not installed or cannot do it. */
  static async start(name: string, command: string[], env: Record<string, string>): Promise<Program> {
    const child = spawn(command[0]!, command.slice(1), {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...process.env, ...env },
    }) as ChildProcess as ChildProcessByStdio<Writable, Readable, Readable>;
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      if (process.env.BENCH_VERBOSE) process.stderr.write(text);
      said = (said + text).slice(-MAX_SAID);
    });
    child.on("error", () => {});
    child.stdin.on("error", () => {});
    const lines = createInterface({ input: child.stdout });
    const answers = marked(lines);
    const { value, done } = await answers.next();
    if (done) throw new Error(faultOf(said) ?? "it ended before it was ready (BENCH_VERBOSE=1 shows what it says)");
    return new Program(name, JSON.parse(value) as Ready, child, answers, lines);
  }

  /** @throws when the program ended, or answered with an error. */
  async run(work: unknown): Promise<Run & Record<string, unknown>> {
    const before = cpuSecondsOf(this.child.pid!);
    this.child.stdin.write(`${JSON.stringify(work)}\n`);
    const { value, done } = await this.answers.next();
    if (done) throw new Error(`${this.name} ended`);
    const answer = JSON.parse(value) as { seconds: number; share?: number; error?: string };
    if (answer.error !== undefined) throw new Error(`${this.name}: ${answer.error}`);
    const after = cpuSecondsOf(this.child.pid!);
    // Where more was done than what is measured, its share of the time is its share of the processor's.
    const cpuSeconds = before === null || after === null ? null : (after - before) * (answer.share ?? 1);
    return { ...answer, cpuSeconds };
  }

  async end(): Promise<void> {
    this.lines.close();
    this.child.stdin.end();
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
    await new Promise((done) => this.child.once("exit", done));
    clearTimeout(timer);
  }
}

/** Characters of what a program says that are kept. */
const MAX_SAID = 8192;

/** The line of a program's last words that names an error; null: none does. */
function faultOf(said: string): string | null {
  return (
    said
      .match(/^.*(?:Error|error): .+$/gm)
      ?.at(-1)
      ?.trim() ?? null
  );
}

async function* marked(lines: Interface): AsyncGenerator<string> {
  for await (const line of lines) if (line.startsWith("@")) yield line.slice(1);
}

const TICKS = 100; // a second, on Linux

/** Of a process and all that it started. */
export function cpuSecondsOf(root: number): number | null {
  const fields = new Map<number, { parent: number; ticks: number }>();
  try {
    for (const entry of readdirSync("/proc")) {
      if (!/^\d+$/.test(entry)) continue;
      try {
        const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
        const rest = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        // User and system time, also of children that have ended.
        const ticks = rest.slice(11, 15).reduce((sum, value) => sum + Number(value), 0);
        fields.set(Number(entry), { parent: Number(rest[1]), ticks });
      } catch {
        // It has ended meanwhile.
      }
    }
  } catch {
    return null;
  }
  if (!fields.has(root)) return null;
  let ticks = 0;
  for (const [pid, { ticks: own }] of fields) if (isBelow(pid, root, fields)) ticks += own;
  return ticks / TICKS;
}

function isBelow(pid: number, root: number, fields: Map<number, { parent: number }>): boolean {
  for (let at: number | undefined = pid; at !== undefined && at !== 0; at = fields.get(at)?.parent) {
    if (at === root) return true;
  }
  return false;
}

/** What every program of this repository's does: says that it is ready, and then one run for each line. */
export async function serve(ready: Ready, run: (work: never) => Promise<object>): Promise<void> {
  const answer = (value: object) => process.stdout.write(`@${JSON.stringify(value)}\n`);
  answer(ready);
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      answer(await run(JSON.parse(line) as never));
    } catch (error) {
      answer({ error: (error as Error).message });
    }
  }
}
