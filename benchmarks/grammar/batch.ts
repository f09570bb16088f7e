/** Steps of a batch with and without a constraint, taken in turn, so that both meet the same machine. */
import { type CompiledGrammar, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFolder } from "../../src/weights/index.js";
import { randomFolder } from "../modelShapes.js";
import { percentile } from "./figures.js";

const shape = "qwen3-0.6b";

export async function batchCost(
  folder: string,
  sequences: number,
  steps: number,
  grammarOf: (vocab: number) => Promise<CompiledGrammar>,
): Promise<void> {
  const runtime = openRuntime();
  const { config, tensors } = await openWeightFolder(randomFolder(folder, shape));
  const pagesEach = Math.ceil((steps + 80) / 64);
  const model = await runtime.load({ config, tensors, dtype: "bfloat16", kvPages: 2 * sequences * pagesEach });
  const grammar = await grammarOf(config.vocab);
  const batch = (constrained: boolean) =>
    Array.from({ length: sequences }, (_, i) => {
      const at = (i + (constrained ? sequences : 0)) * pagesEach;
      const slot = model.openSlot({
        temperature: 1,
        topP: 1,
        topK: 0,
        minP: 0,
        repetitionPenalty: 1,
        frequencyPenalty: 0,
        presencePenalty: 0,
        seed: BigInt(i),
        choice: 0,
        minTokens: 0,
        endIds: new Int32Array(),
        biasIds: new Int32Array(),
        biasValues: new Float32Array(),
        allowedIds: null,
        badWords: [],
        prompt: new Int32Array(),
        topLogprobs: -1,
        grammar: constrained ? grammar.matcher() : null,
      });
      return { slot, blocks: Int32Array.from({ length: pagesEach }, (_, page) => at + page) };
    });
  const step = async (rows: ReturnType<typeof batch>, number: number): Promise<{ ms: number; ended: number }> => {
    const { seconds, tokens } = await model.step(
      rows.map(({ slot, blocks }) => ({
        slot,
        blocks,
        tokens: number === 0 ? Int32Array.of(1, 2, 3, 4) : null,
        position: number === 0 ? 0 : 3 + number,
        adapter: 0,
        sample: true,
        outputIndex: number,
        promptLogprobs: -1,
        next: null,
      })),
    );
    return { ms: 1000 * seconds, ended: tokens.filter((token) => token < 0).length };
  };
  const free = batch(false);
  const constrained = batch(true);
  const times: [number[], number[]] = [[], []];
  let ended = 0;
  for (let i = 0; i < steps; i++) {
    for (const [which, rows] of [free, constrained].entries()) {
      const { ms, ended: gone } = await step(rows, i);
      ended += gone;
      // The first step reads the prompt.
      if (i > 0) times[which]!.push(ms);
    }
  }
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [without, within] = times;
  console.log(
    `\n${shape}, ${sequences} sequences, ${runtime.threads} threads: a step takes ${mean(without).toFixed(1)} ms free, ` +
      `${mean(within).toFixed(1)} ms constrained (${(100 * (mean(within) / mean(without) - 1)).toFixed(1)} %; medians ` +
      `${percentile(without, 0.5).toFixed(1)} and ${percentile(within, 0.5).toFixed(1)}); ${ended} rows had ended`,
  );
  model.close();
}
