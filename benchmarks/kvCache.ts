/**
 * Decoding over a KV cache of 8 bits beside an exact one, by turns, at the shape of Qwen3-0.6B:
 *
 *   npx tsx benchmarks/kvCache.ts [--sequences 16] [--context 2048] [--steps 16] [--turns 5]
 *
 * Milliseconds of a step, wall and processor, medians of the turns, and the bytes of the pages that a step reads.
 */
import { parseArgs } from "node:util";
import { KV_CACHES } from "../src/modelChoices.js";
import { type DeviceModel, openRuntime } from "../src/runtime/runtime.js";
import type { KvCache } from "../src/types/options.js";
import { openWeightFiles } from "../src/weights/index.js";
import { plainSlot } from "../test/native/plainSlot.js";
import { DecodeBatch, openContexts, pagesFor } from "./decodeBatch.js";
import { randomFolder } from "./modelShapes.js";
import { median } from "./speed/report.js";

const { values } = parseArgs({
  options: {
    sequences: { type: "string", default: "16" },
    context: { type: "string", default: "2048" },
    steps: { type: "string", default: "16" },
    turns: { type: "string", default: "5" },
    folder: { type: "string", default: "/tmp/anneal-benchmarks" },
  },
});
const [sequences, context, steps, turns] = [values.sequences, values.context, values.steps, values.turns].map(
  Number,
) as [number, number, number, number];
const runtime = openRuntime();
const { config: spec, tensors } = await openWeightFiles(randomFolder(values.folder!, "qwen3-0.6b"));
const kvPages = pagesFor(sequences, context, steps);

/** Every sequence after a context of its own pages: copies, since what is in them costs no time. */
async function open(kvCache: KvCache): Promise<{ model: DeviceModel; batch: DecodeBatch; pageBytes: number }> {
  const config = { ...spec, kvCache };
  const model = await runtime.load({ config, tensors, dtype: "bfloat16", kvPages });
  const [first] = await openContexts(model, 1, context, steps);
  const blocks = Array.from({ length: sequences }, (_, s) => first!.map((page) => s * first!.length + page));
  for (const own of blocks.slice(1)) model.copyPages(first!, own);
  const batch = new DecodeBatch(model, blocks, context, () => plainSlot({ temperature: 0 }));
  return { model, batch, pageBytes: runtime.memory(config, "bfloat16").page };
}

const caches = { exact: await open("exact"), int8: await open("int8") };
const taken = { exact: [] as number[][], int8: [] as number[][] };
for (let turn = 0; turn <= turns; turn++) {
  for (const name of KV_CACHES) {
    const [began, cpu] = [performance.now(), process.cpuUsage()];
    for (let i = 0; i < steps; i++) await caches[name].batch.step(i);
    const wall = (performance.now() - began) / steps;
    const { user, system } = process.cpuUsage(cpu);
    if (turn > 0) taken[name].push([wall, (user + system) / 1000 / steps]);
  }
}
for (const [name, { pageBytes, model }] of Object.entries(caches)) {
  const of = (what: number) => median(taken[name as "exact"].map((one) => one[what]!)).toFixed(1);
  const read = (pageBytes * sequences * (context / 64)) / 2 ** 30;
  console.log(`${name.padEnd(5)} ${of(0)} ms, ${of(1)} ms of processors, ${read.toFixed(2)} GiB of pages read`);
  model.close();
}
