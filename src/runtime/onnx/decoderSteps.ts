// Runs steps of a decoder graph: sequences that can be computed together become one batch, whose past is read from pages and whose
// new keys and values are written there.

import type { InferenceSession, Tensor } from "onnxruntime-node";
import type { DecoderLayout } from "./decoderLayout.js";
import { type CacheValues, KeyValuePages, type PagedRow } from "./keyValuePages.js";
import { halfFloats, longs, type OnnxRuntime, wide } from "./tensors.js";

/** Tokens at consecutive positions of one sequence. */
export interface DecoderRow {
  tokens: Int32Array;
  /** Of the first token. */
  position: number;
  /** Pages of positions 0 .. position + tokens - 1. */
  blocks: Int32Array;
  /** Of which tokens they are wanted. */
  logits: "none" | "last" | "all";
}

/** Bytes of the logits that one run may give: without num_logits_to_keep a graph makes them of every token. */
const MAX_LOGIT_BYTES = 128 * 2 ** 20;

/** Sequences whose keys and values are still there as a run has given them. */
interface Resident {
  rows: PagedRow[];
  writes: number[][];
  offsets: number[];
  tensors: Tensor[];
  positions: number;
}

export class DecoderSteps {
  private readonly pages: KeyValuePages;
  /** Of the last step. */
  private residents: Resident[] = [];

  constructor(
    private readonly runtime: OnnxRuntime,
    private readonly session: InferenceSession,
    private readonly layout: DecoderLayout,
    private readonly vocab: number,
    pages: number,
  ) {
    this.pages = new KeyValuePages(layout.caches, pages);
  }

  copyPages(from: Int32Array, to: Int32Array): void {
    this.pages.copy(from, to);
  }

  /** Per row the wanted logits, [tokens][vocab]. */
  async step(rows: readonly DecoderRow[]): Promise<Float32Array[]> {
    const results = rows.map(({ tokens, logits }) => {
      const wanted = logits === "all" ? tokens.length : logits === "last" ? 1 : 0;
      return new Float32Array(wanted * this.vocab);
    });
    const residents: Resident[] = [];
    for (const group of this.groups(rows)) residents.push(await this.compute(rows, group, results));
    this.residents = residents;
    return results;
  }

  /** Indices of rows that are computed together. */
  private groups(rows: readonly DecoderRow[]): number[][] {
    const groups = new Map<string, number[]>();
    for (const [i, { tokens, position }] of rows.entries()) {
      const isDecode = tokens.length === 1;
      const together = isDecode && this.layout.padding !== null ? "decode" : `${tokens.length} after ${position}`;
      // Grouped attention takes several new tokens behind a past of one sequence at a time.
      const alone = this.layout.padding === "right" && !isDecode && position > 0;
      const key = alone ? `${i}` : together;
      groups.set(key, [...(groups.get(key) ?? []), i]);
    }
    return [...groups.values()].flatMap((group) => this.withinMemory(group, rows[group[0]!]!.tokens.length));
  }

  private withinMemory(group: number[], tokens: number): number[][] {
    const size = Math.max(1, Math.floor(this.maxTokens / tokens));
    return Array.from({ length: Math.ceil(group.length / size) }, (_, i) => group.slice(i * size, (i + 1) * size));
  }

  /** Of one run. */
  private get maxTokens(): number {
    return Math.max(16, Math.floor(MAX_LOGIT_BYTES / (4 * this.vocab)));
  }

  private async compute(rows: readonly DecoderRow[], group: number[], results: Float32Array[]): Promise<Resident> {
    const members = group.map((i) => rows[i]!);
    const { length } = members[0]!.tokens;
    let resident: Resident | undefined;
    // A long row is alone in its group.
    for (let from = 0; from < length; from += this.maxTokens) {
      const to = Math.min(from + this.maxTokens, length);
      const pieces = members.map(({ tokens, position, blocks }) => ({
        tokens: tokens.subarray(from, to),
        position: position + from,
        blocks,
      }));
      const keep = members.some(({ logits }) => logits === "all") ? to - from : to === length ? 1 : 0;
      const { logits, kept, resident: made } = await this.run(pieces, keep, resident ?? this.residentOf(pieces));
      resident = made;
      for (const [row, i] of group.entries()) {
        const wanted = rows[i]!.logits;
        if (wanted === "none" || (wanted === "last" && to < length)) continue;
        const end = (row + 1) * kept * this.vocab;
        const start = wanted === "last" ? end - this.vocab : end - (to - from) * this.vocab;
        results[i]!.set(logits.subarray(start, end), wanted === "last" ? 0 : from * this.vocab);
      }
    }
    return resident!;
  }

  private async run(rows: readonly Omit<DecoderRow, "logits">[], keep: number, past: Resident | null) {
    const { layout, pages } = this;
    const added = rows[0]!.tokens.length;
    const paged = rows.map(({ blocks, position }) => ({ blocks, length: position }));
    const longest = Math.max(...paged.map(({ length }) => length));
    const before = past?.positions ?? longest;
    const offsets = past?.offsets ?? paged.map(({ length }) => (layout.padding === "left" ? longest - length : 0));
    const total = layout.padding === "right" ? Math.max(before, longest + added) : before + added;
    const feeds = this.plainInputs(rows, offsets, total, keep);
    for (const [at, { past: name, heads, width, type }] of layout.caches.entries()) {
      const tensor = () => {
        const values = pages.gather(at, paged, offsets, before);
        return this.tensor(type, values, [rows.length, heads, before, width]);
      };
      feeds[name] = past?.tensors[at] ?? tensor();
    }
    const outputs = await this.session.run(feeds);
    const positions = outputs[layout.caches[0]!.present]!.dims[2]!;
    const tensors = layout.caches.map(({ present }) => outputs[present]!);
    for (const [at, tensor] of tensors.entries()) {
      const values = halfFloats(tensor.data) as CacheValues;
      for (const [row, { position, blocks }] of rows.entries()) {
        const place = { row, offset: offsets[row]!, from: position, to: position + added, blocks };
        pages.scatter(at, values, positions, place);
      }
    }
    const after = paged.map(({ blocks, length }) => ({ blocks, length: length + added }));
    const writes = after.map((row) => pages.writesOf(row));
    const { data, dims } = outputs.logits!;
    if (dims[2] !== this.vocab) throw new Error(`the graph gives ${dims[2]} logits per token, not ${this.vocab}`);
    const resident: Resident = { rows: after, writes, offsets: [...offsets], tensors, positions };
    return { logits: wide(data), kept: dims[1]!, resident };
  }

  /** What the last step has left, if it is the past of exactly these rows. */
  private residentOf(rows: readonly { blocks: Int32Array; position: number }[]): Resident | null {
    const found = this.residents.find(
      (resident) =>
        resident.rows.length === rows.length &&
        rows.every(({ blocks, position }, i) => {
          const { length, blocks: known } = resident.rows[i]!;
          if (length !== position) return false;
          const writes = this.pages.writesOf({ blocks, length });
          return writes.every((count, page) => count === resident.writes[i]![page] && blocks[page] === known[page]);
        }),
    );
    return found ?? null;
  }

  private plainInputs(
    rows: readonly Omit<DecoderRow, "logits">[],
    offsets: readonly number[],
    total: number,
    keep: number,
  ): Record<string, Tensor> {
    const { runtime, layout } = this;
    const added = rows[0]!.tokens.length;
    const ids = new BigInt64Array(rows.length * added);
    const positions = new BigInt64Array(rows.length * added);
    const mask = new BigInt64Array(rows.length * total);
    for (const [row, { tokens, position }] of rows.entries()) {
      for (let i = 0; i < added; i++) {
        ids[row * added + i] = BigInt(tokens[i]!);
        positions[row * added + i] = BigInt(position + i);
      }
      const first = row * total + offsets[row]!;
      mask.fill(1n, first, first + position + added);
    }
    const shape = [rows.length, added];
    return {
      input_ids: longs(runtime, ids, shape),
      attention_mask: longs(runtime, mask, [rows.length, total]),
      ...(layout.hasPositions ? { position_ids: longs(runtime, positions, shape) } : {}),
      ...(layout.keepsLogits
        ? { num_logits_to_keep: longs(runtime, BigInt64Array.of(BigInt(Math.max(keep, 1))), []) }
        : {}),
    };
  }

  private tensor(type: "float32" | "float16", values: CacheValues, dims: number[]): Tensor {
    return new this.runtime.Tensor(type as "float32", halfFloats(values, true) as Float32Array, dims);
  }
}
