/** How long a fresh process takes to the first token of the embedded model: by the library and by the command, from the built package. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { median } from "./report.js";

const LIBRARY = `
  const { Engine } = await import(${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)});
  const engine = await Engine.open({ home: process.argv[1] });
  const messages = [{ role: "user", content: "Hello" }];
  for await (const chunk of await engine.chat.completions.create({ messages, stream: true, max_tokens: 4, min_tokens: 4 }))
    if (chunk.choices[0]?.delta.content) break;
  const { user, system } = process.cpuUsage();
  process.stdout.write(String((user + system) / 1000));
  await engine.close();`;

interface Start {
  milliseconds: number;
  said: string;
}

/** From before the process exists to the first that it says. */
function start(args: string[], env: Record<string, string>): Promise<Start> {
  const began = performance.now();
  const child = spawn(process.execPath, args, {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...env },
  });
  return new Promise((resolve, reject) => {
    let first: Start | undefined;
    child.stdout.once("data", (said) => {
      first = { milliseconds: performance.now() - began, said: String(said) };
    });
    child.on("error", reject);
    child.on("exit", (code) => (code === 0 && first ? resolve(first) : reject(new Error(`node ended with ${code}`))));
  });
}

export async function starts(rounds: number): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), "anneal-starts-"));
  const command = new URL("../../dist/cli/main.js", import.meta.url).pathname;
  const cache = { XDG_CACHE_HOME: join(folder, "cache") };
  const library: number[] = [];
  const processor: number[] = [];
  const chat: number[] = [];
  const bare: number[] = [];
  try {
    // What is kept of the first command makes later starts faster.
    await start([command, "chat", "Hello", "--max-tokens", "4"], cache);
    for (let round = 0; round < rounds; round++) {
      bare.push((await start(["-e", "process.stdout.write('x')"], {})).milliseconds);
      const home = join(folder, `home${round}`);
      const { milliseconds, said } = await start(["--input-type=module", "-e", LIBRARY, home], cache);
      library.push(milliseconds);
      processor.push(Number(said));
      chat.push((await start([command, "chat", "Hello", "--max-tokens", "4"], cache)).milliseconds);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const shown = (values: number[]) =>
    `${median(values).toFixed(0)} ms (${Math.min(...values).toFixed(0)} - ${Math.max(...values).toFixed(0)})`;
  return [
    `Process start to the first token of the embedded model, a new home: ${shown(library)}, of which ${median(bare).toFixed(0)} are Node's own; ${median(processor).toFixed(0)} ms of processor time.`,
    `The same by \`anneal chat\`: ${shown(chat)}.`,
  ];
}
