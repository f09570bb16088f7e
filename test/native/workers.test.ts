// Several Node environments share one executor; one of them ending in the middle of its work disturbs nobody.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { expect, it } from "vitest";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { caseAdapter, caseFolder, expected, loadCase, pagesFrom, plainSlot } from "./referenceModel.js";

const addon = fileURLToPath(new URL("../../native/build/Release/anneal.node", import.meta.url));

/** Plain JavaScript over the addon itself: trains and samples without end, and reports each round's log-probabilities. */
const program = `
  const { parentPort, workerData } = require("node:worker_threads");
  const native = require(workerData.addon);
  native.initialize((code, message) => Object.assign(new Error(message), { code }));
  (async () => {
    const model = await native.load(workerData.load);
    const trainer = await model.trainAdapter(workerData.spec, 1n, workerData.tensors);
    const slot = model.openSlot(workerData.slot);
    for (let round = 0; ; round++) {
      const blocks = Int32Array.of(0, 1);
      const step = { slot, tokens: workerData.row, position: 0, blocks, adapter: 0, sample: true, outputIndex: 0, promptLogprobs: -1, next: null };
      const pass = trainer.forward([{ tokens: workerData.row }], undefined);
      const steps = Array.from({ length: 4 }, () => model.step([step]));
      const { logprobs } = await pass;
      parentPort.postMessage({ round, training: logprobs[0], sampled: (await steps[3]).logprobs[0] });
      await Promise.all(steps);
    }
  })();
`;

async function start(): Promise<{ worker: Worker; rounds: { training: Float32Array; sampled: number }[] }> {
  const { config, tensors } = await openWeightFolder(caseFolder("llama"));
  const adapter = await caseAdapter("llama");
  const workerData = {
    addon,
    load: { config, tensors, dtype: "float32", kvPages: 8 },
    spec: adapter.spec,
    tensors: [...adapter.tensors].map(([name, tensor]) => ({ name, ...tensor })),
    slot: plainSlot({ seed: 11n }),
    row: expected("llama").rows[1],
  };
  const worker = new Worker(program, { eval: true, workerData });
  const rounds: { training: Float32Array; sampled: number }[] = [];
  worker.on("message", (round) => rounds.push(round));
  await new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
  return { worker, rounds };
}

it("survives the termination of worker threads in the middle of their work, again and again", async () => {
  const lasting = await start();
  const model = await loadCase("llama", { kvPages: 8 });
  for (let victim = 0; victim < 12; victim++) {
    const [one, two] = await Promise.all([start(), start()]);
    // At another moment of its round each time.
    await new Promise((resolve) => setTimeout(resolve, victim * 1.7));
    await Promise.all([one.worker.terminate(), two.worker.terminate()]);
    const before = lasting.rounds.length;
    while (lasting.rounds.length < before + 3) await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const { training, sampled } = lasting.rounds[0]!;
  for (const round of lasting.rounds) {
    expect(round.training).toEqual(training);
    expect(round.sampled).toBe(sampled);
  }
  await lasting.worker.terminate();
  const slot = model.openSlot(plainSlot({ seed: 11n }));
  const row = expected("llama").rows[1]!;
  const step = { slot, tokens: row, position: 0, blocks: pagesFrom(0, row.length, model), adapter: 0, sample: true };
  const own = await model.step([{ ...step, outputIndex: 0, promptLogprobs: -1, next: null }]);
  expect(own.logprobs[0]).toBe(sampled);
  model.close();
});

const run = (code: string) =>
  promisify(execFile)(process.execPath, ["--import", "tsx", "--input-type=module", "-e", code], { timeout: 60_000 });
const helper = new URL("./referenceModel.ts", import.meta.url).href;
const open = `
  import { loadCase, plainSlot, caseAdapter } from ${JSON.stringify(helper)};
  const model = await loadCase("llama", { kvPages: 8 });
  const { spec } = await caseAdapter("llama");
  const trainer = await model.trainAdapter(spec, { seed: 1n });
`;

it("lets a process end that has an open model, but not before its calls have ended", async () => {
  const { stdout } = await run(`${open}
    trainer.evaluate([{ tokens: new Int32Array(200) }]).then(() => console.log("done"));
  `);
  expect(stdout).toBe("done\n");
});

it("lets process.exit and an uncaught error end the process in the middle of work", async () => {
  const busy = `${open}
    for (let i = 0; i < 50; i++) trainer.evaluate([{ tokens: new Int32Array(250) }]).catch(() => {});
  `;
  const { stdout } = await run(`${busy} console.log("leaving"); process.exit(0);`);
  expect(stdout).toBe("leaving\n");
  await expect(run(`${busy} setTimeout(() => { throw new Error("mine"); }, 5);`)).rejects.toMatchObject({ code: 1 });
});
