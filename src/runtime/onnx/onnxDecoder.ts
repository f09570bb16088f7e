// A decoder that ONNX Runtime computes, behind the interface of devices: its thread computes logits from pages of keys and values, the
// native core samples from them.

import { ClosedError, ConflictError, ModelFileError } from "../../errors.js";
import type { DeviceModel, RowLogprobs, SlotParams, StepOutput, StepSequence } from "../device.js";
import type { ModelSpec } from "../modelSpec.js";
import { type NativeModel, nativeAddon } from "../nativeAddon.js";
import type { Trainer } from "../trainer.js";
import { type DecoderLayout, decoderLayout, LayoutError } from "./decoderLayout.js";
import type { DecoderRow } from "./decoderSteps.js";
import type { DecoderTasks } from "./decoderTasks.js";
import { pageBytes } from "./keyValuePages.js";
import { OnnxThread } from "./onnxThread.js";
import type { SessionOptions } from "./openSession.js";

/** A run's past and present are copies of what pages hold. */
const COPIES_OF_PAGES = 3;

/** Logits that one call hands to the native core: it copies them while JavaScript waits. */
const MAX_SAMPLED_BYTES = 8 * 2 ** 20;

export interface OnnxModelSizes {
  vocab: number;
  maxPositions: number;
  /** Of the graph and its weights. */
  bytes: number;
}

/** A graph that has been opened. */
export class OnnxDecoder {
  private constructor(
    private readonly thread: OnnxThread<DecoderTasks>,
    private readonly layout: DecoderLayout,
  ) {}

  /** @throws ModelFileError for a graph of another layout; UnavailableError without onnxruntime-node. */
  static async open(data: SessionOptions): Promise<OnnxDecoder> {
    const thread = new OnnxThread<DecoderTasks>("runtime/onnx/decoderWorker", data);
    try {
      return new OnnxDecoder(thread, decoderLayout(await thread.ask("open", {})));
    } catch (error) {
      thread.close();
      throw error instanceof LayoutError ? new ModelFileError(data.file, error.message) : error;
    }
  }

  /** Tokens of a row of logits; null: the graph leaves it open. */
  get vocab(): number | null {
    return this.layout.vocab;
  }

  /** Bytes that a page of 64 positions takes. */
  get pageBytes(): number {
    return COPIES_OF_PAGES * pageBytes(this.layout.caches);
  }

  async load(sizes: OnnxModelSizes, pages: number): Promise<DeviceModel> {
    await this.thread.ask("pages", { layout: this.layout, vocab: sizes.vocab, count: pages });
    return new OnnxDeviceModel(this.thread, sizes, pages, sizes.bytes + pages * this.pageBytes);
  }

  close(): void {
    this.thread.close();
  }
}

type Row = Required<StepSequence>;

class OnnxDeviceModel implements DeviceModel {
  readonly config: ModelSpec;
  readonly dtype = "float32";
  readonly device = "cpu";
  readonly kernelSet = "onnxruntime";
  readonly differenceToExact = 0;
  readonly weightOnly = [];
  readonly pageSize = 64;
  readonly pageGroups = [0];
  readonly recurrentStates = 0;
  readonly takesGuesses = false;
  private readonly sampler: NativeModel;
  /** Of each slot, what it has drawn last and what was forced after it; empty: nothing was permitted. */
  private readonly drawn = new Map<number, Int32Array>();
  private queue: Promise<unknown> = Promise.resolve();
  private isClosed = false;

  constructor(
    private readonly thread: OnnxThread<DecoderTasks>,
    { vocab, maxPositions }: OnnxModelSizes,
    readonly pages: number,
    readonly bytes: number,
  ) {
    // What a graph computes is its own matter; hidden states do not leave it.
    this.config = {
      hidden: 0,
      vocab,
      maxPositions,
      layers: [],
      rmsEps: 0,
      normAddsOne: false,
      tiedHead: false,
      embeddingScale: 1,
      embeddingRounds: false,
      logitScale: 1,
      logitSoftCap: 0,
    };
    this.sampler = nativeAddon().givenLogits({ vocab, maxPositions, pages });
  }

  openSlot(params: SlotParams): number {
    return this.sampler.openSlot(params);
  }

  closeSlot(slot: number): void {
    this.drawn.delete(slot);
    this.sampler.closeSlot(slot);
  }

  step(sequences: StepSequence[], signal?: AbortSignal): Promise<StepOutput> {
    const rows = sequences.map(copyOf);
    return this.inOrder(async () => {
      signal?.throwIfAborted();
      return this.compute(rows);
    });
  }

  copyRecurrentStates(): void {}

  copyPages(from: Int32Array, to: Int32Array): void {
    const [sources, targets] = [from.slice(), to.slice()];
    // A failure shows in the steps that follow.
    this.inOrder(() => this.thread.ask("copy", { from: sources, to: targets })).catch(() => undefined);
  }

  loadAdapter(): Promise<number> {
    return Promise.reject(notTrained());
  }

  releaseAdapter(): void {
    throw notTrained();
  }

  adapterBytes(): number {
    throw notTrained();
  }

  adapterTrainingBytes(): number {
    throw notTrained();
  }

  trainAdapter(): Promise<Trainer> {
    return Promise.reject(notTrained());
  }

  trainWeights(): Promise<Trainer> {
    return Promise.reject(notTrained());
  }

  close(): void {
    this.isClosed = true;
    this.thread.close();
    this.sampler.close();
  }

  private inOrder<T>(work: () => Promise<T>): Promise<T> {
    const result = this.queue.then(() => {
      if (this.isClosed) throw new ClosedError("the model has been closed");
      return work();
    });
    this.queue = result.catch(() => undefined);
    return result;
  }

  private async compute(rows: Row[]): Promise<StepOutput> {
    const started = performance.now();
    const output = emptyOutput(rows.length);
    const known: { at: number; row: Row; tokens: Int32Array }[] = [];
    for (const [at, row] of rows.entries()) {
      const tokens = row.tokens ?? this.drawn.get(row.slot) ?? NOTHING;
      output.tokens[at] = row.sample ? -1 : -2;
      if (tokens.length === 0) continue;
      // Counted before the draw that the row goes on from; forced ones are added.
      if (row.tokens === null) row.outputIndex += tokens.length - 1;
      known.push({ at, row, tokens });
    }
    if (known.length === 0) return output;
    const { logits } = await this.thread.ask("step", {
      rows: known.map(({ row, tokens }): DecoderRow => {
        const wanted = row.promptLogprobs >= 0 ? "all" : row.sample ? "last" : "none";
        return { tokens, position: row.position, blocks: row.blocks, logits: wanted };
      }),
    });
    for (const call of this.samplingCalls(known, logits)) {
      const sampled = await this.sampler.step(call.map(({ sequence }) => sequence));
      for (const [i, { at, sequence }] of call.entries()) this.take(output, at, sequence, sampled, i);
    }
    output.seconds = (performance.now() - started) / 1000;
    return output;
  }

  /** What the native core is asked: rows that want logits, long prompts in pieces, of which the last one draws. */
  private samplingCalls(known: readonly { at: number; row: Row; tokens: Int32Array }[], logits: Float32Array[]) {
    const { vocab } = this.config;
    const most = Math.max(1, Math.floor(MAX_SAMPLED_BYTES / (4 * vocab)));
    const calls: { at: number; sequence: Row & { logits: Float32Array } }[][] = [];
    let rows = most;
    for (const [i, { at, row, tokens }] of known.entries()) {
      const total = logits[i]!.length / vocab;
      for (let from = 0; from < total; ) {
        if (rows === most) {
          calls.push([]);
          rows = 0;
        }
        const count = Math.min(most - rows, total - from);
        const isLast = from + count === total;
        const sequence = {
          ...row,
          tokens: tokens.slice(tokens.length - total + from, tokens.length - total + from + count),
          position: row.position + tokens.length - total + from,
          sample: row.sample && isLast,
          // Only rows that are asked about a prompt have more than one.
          next: row.next === null ? null : row.next.slice(from, from + count),
          logits: logits[i]!.subarray(from * vocab, (from + count) * vocab),
        };
        calls.at(-1)!.push({ at, sequence });
        rows += count;
        from += count;
        // The pieces of one sequence would write the same pages.
        if (!isLast) rows = most;
      }
    }
    return calls;
  }

  private take(output: StepOutput, at: number, sequence: Row, sampled: StepOutput, i: number): void {
    const prompt: RowLogprobs[] | null = sampled.prompt[i] ?? null;
    if (prompt !== null) output.prompt[at] = [...(output.prompt[at] ?? []), ...prompt];
    if (!sequence.sample) return;
    const token = sampled.tokens[i]!;
    const forced = sampled.forced[i] ?? null;
    output.tokens[at] = token;
    output.logprobs[at] = sampled.logprobs[i]!;
    output.temperatureLogprobs[at] = sampled.temperatureLogprobs[i]!;
    output.forced[at] = forced;
    output.top[at] = sampled.top[i] ?? null;
    this.drawn.set(sequence.slot, token < 0 ? NOTHING : Int32Array.of(token, ...(forced ?? NOTHING)));
  }
}

const NOTHING = new Int32Array(0);

/** The caller uses its own again. */
function copyOf(sequence: StepSequence): Row {
  return {
    ...sequence,
    tokens: sequence.tokens?.slice() ?? null,
    blocks: sequence.blocks.slice(),
    next: sequence.next?.slice() ?? null,
    maxForced: sequence.maxForced ?? 0,
  } as Row;
}

function emptyOutput(rows: number): StepOutput {
  return {
    tokens: new Int32Array(rows),
    logprobs: new Float32Array(rows),
    temperatureLogprobs: new Float32Array(rows).fill(Number.NaN),
    forced: Array(rows).fill(null),
    top: Array(rows).fill(null),
    prompt: Array(rows).fill(null),
    states: Array(rows).fill(null),
    seconds: 0,
  };
}

function notTrained(): ConflictError {
  return new ConflictError("ONNX models are not trained", {
    code: "not_trainable",
    hint: "train the Hugging Face folder that the ONNX folder was made from",
  });
}
