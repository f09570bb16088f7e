/**
 * The embedded model in process: 64 parallel chats, and how long a fresh process takes to its first token.
 *
 *   npm run build && npx tsx benchmarks/embedded.ts [--chats 64] [--tokens 256] [--repeats 5]
 *
 * Of the chats: tokens per second, and the share of the time in which the device computed. The fresh process imports the
 * built package, opens an engine in a new home and streams one chat; the time counts from before the process exists.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { EngineCore } from "../src/engine/core/core.js";
import { Engine } from "../src/index.js";

const { values: options } = parseArgs({
  options: {
    chats: { type: "string", default: "64" },
    tokens: { type: "string", default: "256" },
    repeats: { type: "string", default: "5" },
  },
});
const chats = Number(options.chats);
const tokens = Number(options.tokens);
const repeats = Number(options.repeats);
const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1]!;
const homes: string[] = [];
const newHome = (): string => {
  homes.push(mkdtempSync(join(tmpdir(), "anneal-embedded-")));
  return homes.at(-1)!;
};

const engine = await Engine.open({ home: newHome() });
const { loop } = (engine as unknown as { core: EngineCore }).core.defaultBase;
const together = (count: number, length: number) =>
  Promise.all(
    Array.from({ length: count }, (_, i) =>
      engine.chat.completions.create({
        messages: [{ role: "user", content: `Spell "word${i}" backwards.` }],
        max_tokens: length,
        min_tokens: length,
        ignore_eos: true,
        seed: i,
      }),
    ),
  );
await together(chats, 16);
const rates: number[] = [];
const shares: number[] = [];
for (let i = 0; i < repeats; i++) {
  const before = loop.stats().deviceSeconds;
  const began = performance.now();
  await together(chats, tokens);
  const seconds = (performance.now() - began) / 1000;
  rates.push((chats * tokens) / seconds);
  shares.push((loop.stats().deviceSeconds - before) / seconds);
}
await engine.close();
const busy = `${(100 * median(shares)).toFixed(0)} % of the time`;
console.log(`${chats} chats of ${tokens} tokens: ${median(rates).toFixed(0)} tokens/s, the device computing ${busy}`);

const first = `
  const { Engine } = await import(${JSON.stringify(new URL("../dist/index.js", import.meta.url).href)});
  const engine = await Engine.open({ home: process.argv[1] });
  const messages = [{ role: "user", content: "Hello" }];
  for await (const chunk of await engine.chat.completions.create({ messages, stream: true, max_tokens: 4, min_tokens: 4 }))
    if (chunk.choices[0]?.delta.content) break;
  console.log(Date.now());
  await engine.close();`;
const starts: number[] = [];
for (let i = 0; i < repeats; i++) {
  const began = Date.now();
  const child = spawnSync(process.execPath, ["--input-type=module", "-e", first, newHome()], { encoding: "utf8" });
  if (child.status !== 0) throw new Error(child.stderr);
  starts.push(Number(child.stdout) - began);
}
console.log(`process start to first token: ${median(starts)} ms  [${starts[0]} - ${starts.at(-1)}]`);
for (const home of homes) rmSync(home, { recursive: true });
