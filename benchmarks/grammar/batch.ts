/** Steps of a batch with and without a constraint, taken in turn, so that both meet the same machine. */
import { type CompiledGrammar, type DeviceModel, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFolder } from "../../src/weights/index.js";
import { plainSlot } from "../../test/native/plainSlot.js";
import { DecodeBatch, openContexts, pagesFor } from "../decodeBatch.js";
import { percentile } from "./figures.js";

/** Tokens before the measured ones, and what a fresh batch needs to meet what it will meet again and again. */
const CONTEXT = 64;
const WARM_UP = 4;

export interface BatchSettings {
  name: string;
  /** A Hugging Face folder. */
  folder: string;
  sequences: number;
  steps: number;
  grammarOf: (vocab: number) => Promise<CompiledGrammar>;
}

export async function batchCost({ name, folder, sequences, steps, grammarOf }: BatchSettings): Promise<void> {
  const runtime = openRuntime();
  const { config, tensors } = await openWeightFolder(folder);
  const further = WARM_UP + steps;
  const kvPages = 2 * pagesFor(sequences, CONTEXT, further);
  const model = await runtime.load({ config, tensors, dtype: "bfloat16", kvPages });
  const grammar = await grammarOf(config.vocab);
  const blocks = await openContexts(model, 2 * sequences, CONTEXT, further);
  const free = batch(model, blocks.slice(0, sequences), null);
  const constrained = batch(model, blocks.slice(sequences), grammar);
  const times: [number[], number[]] = [[], []];
  let ended = 0;
  for (let i = 0; i < further; i++) {
    // Each goes first every other time.
    for (const which of i % 2 === 0 ? [0, 1] : [1, 0]) {
      const { seconds, tokens } = await (which === 0 ? free : constrained).step(i);
      if (i >= WARM_UP) times[which]!.push(1000 * seconds);
      ended += tokens.filter((token) => token < 0).length;
    }
  }
  const [without, within] = times;
  const ratios = within.map((time, i) => time / without[i]!);
  const percent = (ratio: number) => `${(100 * (ratio - 1)).toFixed(1)} %`;
  const ms = (list: number[]) => percentile(list, 0.5).toFixed(2);
  const sum = (list: number[]) => list.reduce((total, value) => total + value, 0);
  console.log(
    `${name}, ${sequences} sequences, ${runtime.threads} threads, ${steps} steps: ${ms(without)} ms free, ${ms(within)} ms ` +
      `constrained (medians); in all ${percent(sum(within) / sum(without))}, median of pairs ${percent(percentile(ratios, 0.5))}` +
      `${ended === 0 ? "" : `; ${ended} rows had ended`}`,
  );
  free.close();
  constrained.close();
  model.close();
}

function batch(model: DeviceModel, blocks: Int32Array[], grammar: CompiledGrammar | null): DecodeBatch {
  const slotOf = (sequence: number) => plainSlot({ seed: BigInt(sequence), grammar: grammar?.matcher() ?? null });
  return new DecodeBatch(model, blocks, CONTEXT, slotOf);
}
