/** Many chats of the embedded model at the same time, in process. */
import type { EngineCore } from "../../src/engine/core/core.js";
import { Engine } from "../../src/index.js";
import { median } from "./report.js";

const CHATS = 64;
const TOKENS = 256;

/** Says how many tokens they get a second, and for what share of the time the device computed. */
export async function chats(rounds: number): Promise<string> {
  const engine = await Engine.open({ speculation: "none" });
  const { loop } = (engine as unknown as { core: EngineCore }).core.defaultBase;
  const together = (length: number) =>
    Promise.all(
      Array.from({ length: CHATS }, (_, i) =>
        engine.chat.completions.create({
          messages: [{ role: "user", content: `Spell "word${i}" backwards.` }],
          max_tokens: length,
          min_tokens: length,
          ignore_eos: true,
          seed: i,
        }),
      ),
    );
  await together(16);
  const rates: number[] = [];
  const shares: number[] = [];
  const processor: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const before = loop.stats().deviceSeconds;
    const cpu = process.cpuUsage();
    const began = performance.now();
    await together(TOKENS);
    const seconds = (performance.now() - began) / 1000;
    const { user, system } = process.cpuUsage(cpu);
    rates.push((CHATS * TOKENS) / seconds);
    shares.push((loop.stats().deviceSeconds - before) / seconds);
    processor.push((user + system) / 1e3 / (CHATS * TOKENS));
  }
  await engine.close();
  const rate = Math.round(median(rates)).toLocaleString("en");
  const busy = (100 * median(shares)).toFixed(0);
  return `${CHATS} chats of the embedded model, ${TOKENS} tokens each: ${rate} tokens a second, ${median(processor).toFixed(3)} processor seconds for 1,000, the device computing ${busy} % of the time.`;
}
