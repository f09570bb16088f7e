/** A batch of sequences that decode side by side, for measurements. */
import type { DeviceModel, SlotParams, StepOutput, StepSequence } from "../src/runtime/runtime.js";

export const PAGE = 64;

/** Pages that `openContexts` needs. */
export const pagesFor = (sequences: number, context: number, further: number): number =>
  sequences * Math.ceil((context + further) / PAGE);

/** Token ids spread over the vocabulary. */
export const spreadTokens = (count: number, vocab: number, salt: number): Int32Array =>
  Int32Array.from(
    { length: count },
    (_, i) => ((Math.imul(i + 1, 2654435761) + Math.imul(salt + 1, 40503)) >>> 0) % vocab,
  );

/** Recurrent states that `sequences` of a DecodeBatch need, if the model has any. */
export const statesFor = (sequences: number): number => 2 * sequences;

/** The block table [blocks][groups] where each of `pages` is one of every group of layers. */
export const tableOf = (pages: Int32Array, groups: number): Int32Array =>
  Int32Array.from({ length: pages.length * groups }, (_, i) => pages[Math.floor(i / groups)]! * groups + (i % groups));

/** Rows of training over such tokens, each of which is trained on but the first. */
export const spreadRows = (
  count: number,
  length: number,
  vocab: number,
): { tokens: Int32Array; trained: Uint8Array }[] =>
  Array.from({ length: count }, (_, row) => ({
    tokens: spreadTokens(length, vocab, row),
    trained: new Uint8Array(length).fill(1, 1),
  }));

/** What every row of a step has in common here. */
export const plainRow = { adapter: 0, sample: true, outputIndex: 0, promptLogprobs: -1, next: null } as const;

/**
 * Prefills `sequences` contexts; answers with their block tables, which have room for `further` positions. `shared`: all have the same
 * context, and its whole pages in common.
 */
export async function openContexts(
  model: DeviceModel,
  sequences: number,
  context: number,
  further: number,
  shared = false,
): Promise<Int32Array[]> {
  const each = pagesFor(1, context, further);
  const blocks = Array.from({ length: sequences }, (_, s) => Int32Array.from({ length: each }, (_, i) => s * each + i));
  const whole = shared ? Math.floor(context / PAGE) : 0;
  const tables = blocks.map((own, s) => {
    if (s > 0) own.set(blocks[0]!.subarray(0, whole));
    return tableOf(own, model.pageGroups.length);
  });
  for (const [s, table] of tables.entries()) {
    // A recurrent state has to be computed from the beginning.
    const position = s > 0 && model.recurrentStates === 0 ? whole * PAGE : 0;
    if (position === context) continue;
    const tokens = spreadTokens(context, model.config.vocab, shared ? 0 : s).subarray(position);
    await model.step([{ ...plainRow, slot: -1, sample: false, tokens, position, blocks: table, recurrent: s }]);
  }
  return tables;
}

/** Sequences over those contexts that sample by `params`; `step(i)` draws the token after position context + i. */
export class DecodeBatch {
  private readonly slots: number[];
  /** Recurrent states: behind the contexts, and those that steps change. */
  private readonly begun: Int32Array;
  private readonly own: Int32Array;
  private drawn = 0;

  constructor(
    private readonly model: DeviceModel,
    private readonly blocks: Int32Array[],
    private readonly context: number,
    params: (sequence: number) => SlotParams,
  ) {
    this.slots = blocks.map((_, s) => model.openSlot(params(s)));
    this.begun = Int32Array.from(blocks, (_, s) => s);
    this.own = this.begun.map((s) => blocks.length + s);
  }

  step(index: number): Promise<StepOutput> {
    const outputIndex = this.drawn++;
    const position = this.context + index;
    if (index === 0 && this.model.recurrentStates > 0) this.model.copyRecurrentStates(this.begun, this.own);
    return this.model.step(
      this.slots.map((slot, s): StepSequence => {
        const tokens = outputIndex === 0 ? Int32Array.of(s) : null;
        return { ...plainRow, slot, tokens, position, blocks: this.blocks[s]!, recurrent: this.own[s]!, outputIndex };
      }),
    );
  }

  close(): void {
    for (const slot of this.slots) this.model.closeSlot(slot);
  }
}
