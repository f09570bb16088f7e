import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { AnnealError, ValidationError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { Device } from "../types/devices.js";
import { defaultHome } from "../userFolder.js";
import { withoutUndefined } from "../withoutAbsent.js";
import { defineCommand } from "./command.js";
import { gigabytes } from "./devices.js";
import { engineFlags, readEngineOptions } from "./engineFlags.js";
import { type Finding, inspectionFindings } from "./inspection.js";
import { json } from "./listing.js";
import { openEngine } from "./openHome.js";
import { green, printable, problem, red } from "./terminalText.js";

/** Below this a run of training may not find room for its checkpoints. */
const MIN_DISK_BYTES = 2 ** 30;

/** Kernels that widen bfloat16 to multiply it. */
const WIDENING_SETS: ReadonlySet<string> = new Set(["avx2", "avxvnni", "avx512", "avx512vnni"]);

async function examine(check: string, look: () => string | Promise<string>): Promise<Finding> {
  try {
    return { check, ok: true, detail: await look() };
  } catch (error) {
    return { check, ok: false, detail: problem(error) };
  }
}

export const doctor = defineCommand({
  name: "doctor",
  arguments: ["[MODEL]"],
  summary: "check that this machine, a home and a model are in order",
  details: `Checks Node, the compute core, memory, the home, and that the model loads and replies. Of a MODEL, a folder or OWNER/NAME that
was pulled, it tells what it is, the memory that it needs at which context, how its thoughts and tool calls are read, and where its
chat template rewrites earlier turns, with the two texts side by side. Exits with 1 when something is wrong. Nothing is made or changed.`,
  flags: { json, ...engineFlags },
  async run(values, [model]) {
    const home = resolve(values.home ?? defaultHome());
    const findings: Finding[] = [];
    const tell = (finding: Finding) => {
      findings.push(finding);
      if (values.json) return;
      const mark = finding.ok ? green("ok   ") : red("wrong");
      const lines = finding.detail.split("\n").map(printable);
      console.log(`${mark}  ${finding.check.padEnd(8)}  ${lines.join(`\n${" ".repeat(17)}`)}`);
    };
    const report = async (check: string, look: () => string | Promise<string>) => {
      const finding = await examine(check, look);
      tell(finding);
      return finding.ok;
    };
    await report("node", () => `${process.version} for ${process.platform}-${process.arch}`);
    let memory: Device["memory"];
    const hasCore = await report("core", async () => {
      const { listDevices } = await import("../index.js");
      const [cpu] = await listDevices();
      const { name, threads, instruction_sets, precisions } = cpu!;
      memory = cpu!.memory;
      const unit = precisions.includes("fast") ? " (amx with --precision fast)" : "";
      const isWidening = unit === "" && WIDENING_SETS.has(instruction_sets.at(-1)!);
      const hint = isWidening ? "; models in bfloat16 are faster with --quantize int16" : "";
      return `${name}, ${instruction_sets.at(-1)}${unit}, ${threads} ${threads === 1 ? "thread" : "threads"}${hint}`;
    });
    await report("home", () => examineHome(home));
    if (hasCore) {
      await report("memory", () => `${gigabytes(memory.available)} of ${gigabytes(memory.total)} available`);
      // Without a home: what it does is kept nowhere, and a server of that home may run on.
      const asked = model === undefined ? values : { ...values, model: [{ path: model }] };
      if (model !== undefined) for (const finding of await inspect(model, asked)) tell(finding);
      await report("model", () => reply(asked));
    }
    if (values.json) console.log(JSON.stringify(findings, null, 2));
    return findings.every(({ ok }) => ok) ? 0 : 1;
  },
});

/** @throws Error saying what is wrong with it. */
function examineHome(home: string): string {
  let folder = home;
  while (!existsSync(folder)) folder = dirname(folder);
  const found = statSync(folder);
  if (!found.isDirectory()) throw new Error(`${folder} is not a folder`);
  accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  if (free < MIN_DISK_BYTES) throw new Error(`${folder}: only ${gigabytes(free)} are free on its disk`);
  if (folder !== home) return `${home}, which is not there yet; ${gigabytes(free)} free`;
  if (process.platform !== "win32" && (found.mode & 0o077) !== 0) {
    throw new Error(`other users can enter ${home}: chmod 700 '${home}'`);
  }
  return `${home}, ${gigabytes(free)} free`;
}

async function inspect(model: string, values: Parameters<typeof readEngineOptions>[0]): Promise<Finding[]> {
  const { inspectModel } = await import("../index.js");
  const { dtype, quantize, kvCache, models } = readEngineOptions(values);
  const [named] = models ?? [];
  const onnx = typeof named === "object" ? named.onnx : undefined;
  try {
    return inspectionFindings(await inspectModel(model, withoutUndefined({ dtype, quantize, kvCache, onnx })));
  } catch (error) {
    // What it is good for, the reply tells.
    const ok = error instanceof AnnealError && error.code === "encoder";
    return [{ check: "what", ok, detail: ok ? error.message : problem(error) }];
  }
}

async function reply(values: Parameters<typeof readEngineOptions>[0]): Promise<string> {
  const began = performance.now();
  await using engine = await openEngine(readEngineOptions(values));
  const answers: string[] = [];
  for (const { id } of (await engine.models.list()).data) answers.push(await answer(engine, id));
  return `${answers.join(", ")} within ${((performance.now() - began) / 1000).toFixed(1)} s`;
}

/** What a model gives when it is asked. */
async function answer(engine: AnnealClient, model: string): Promise<string> {
  const messages = [{ role: "user" as const, content: "Hello" }];
  try {
    await engine.chat.completions.create({ model, messages, max_completion_tokens: 1 });
    return `${model} replied`;
  } catch (error) {
    if (!(error instanceof ValidationError) || error.issues[0]?.type !== "not_supported") throw error;
    const { data } = await engine.embeddings.create({ model, input: "Hello" });
    return `${model} made a vector of ${data[0]!.embedding.length}`;
  }
}
