import type { DeviceModel } from "../../src/runtime/runtime.js";
import { plainSlot } from "../../test/native/plainSlot.js";

export interface Generation {
  temperature: number;
  maxTokens: number;
  endIds: readonly number[];
  seed: bigint;
  /** How many sequences run together. */
  batch: number;
  /** Called after each finished batch with the number of prompts done. */
  onProgress?: (done: number) => void;
}

interface Running {
  index: number;
  slot: number;
  position: number;
  blocks: Int32Array;
  output: number[];
}

/** Completes every prompt; the result holds the output ids without the end token. KV pages needed: batch x ceil((prompt + maxTokens) / 64). */
export async function generate(
  model: DeviceModel,
  prompts: readonly (readonly number[])[],
  options: Generation,
): Promise<number[][]> {
  const outputs: number[][] = prompts.map(() => []);
  const ends = new Set(options.endIds);
  for (let from = 0; from < prompts.length; from += options.batch) {
    let page = 0;
    let running: Running[] = prompts.slice(from, from + options.batch).map((prompt, i) => {
      const pages = Math.ceil((prompt.length + options.maxTokens) / model.pageSize);
      const blocks = Int32Array.from({ length: pages }, () => page++);
      const { temperature, seed } = options;
      const endIds = Int32Array.from(options.endIds);
      const slot = model.openSlot(plainSlot({ temperature, seed, choice: from + i, endIds }));
      return { index: from + i, slot, position: 0, blocks, output: [] };
    });
    while (running.length > 0) {
      const step = await model.step(
        running.map(({ index, slot, position, blocks, output }) => {
          const tokens = position === 0 ? Int32Array.from(prompts[index]!) : null;
          const covered = Math.ceil((position + (tokens?.length ?? 1)) / model.pageSize);
          return {
            slot,
            tokens,
            position,
            blocks: blocks.subarray(0, covered),
            adapter: 0,
            sample: true,
            outputIndex: output.length,
            promptLogprobs: -1,
            next: null,
          };
        }),
      );
      running = running.filter((sequence, i) => {
        sequence.position += sequence.position === 0 ? prompts[sequence.index]!.length : 1;
        const token = step.tokens[i]!;
        if (!ends.has(token)) sequence.output.push(token);
        if (!ends.has(token) && sequence.output.length < options.maxTokens) return true;
        outputs[sequence.index] = sequence.output;
        model.closeSlot(sequence.slot);
        return false;
      });
    }
    options.onProgress?.(Math.min(from + options.batch, prompts.length));
  }
  return outputs;
}
