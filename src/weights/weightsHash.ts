// What weights hash to: SHA-256, as hex, of the configuration and of every tensor's name, type, shape and bytes in order of
// name. It is the same however the tensors are spread over files, and stays the same when specs learn to say more.

import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { ModelFileError } from "../errors.js";
import { openRegularFile, readAt } from "../regularFile.js";
import type { ModelSpec, TensorLocation } from "../runtime/runtime.js";

/** The hash, by one pass over the files when it is first asked for. */
export function hashOnce(config: ModelSpec, tensors: readonly TensorLocation[]): () => Promise<string> {
  let hash: Promise<string> | undefined;
  return () => {
    hash ??= hashWeights(config, tensors);
    return hash;
  };
}

/** Fields that specs learnt later, and what was the only way before. */
const LATER: Record<string, unknown> = {
  queryScale: 0,
  shortFactors: [],
  longFactors: [],
  fusedQkv: false,
  fusedGateUp: false,
  outputGate: false,
  embeddingRounds: false,
};

/** Without later fields that say what used to be the only way, so that a model keeps its hash when specs learn to say more. */
function said(value: unknown): string {
  return JSON.stringify(value, (key, field) =>
    Object.hasOwn(LATER, key) && JSON.stringify(field) === JSON.stringify(LATER[key]) ? undefined : field,
  );
}

/** What of a spec makes another model of the same weights; of a plain one what the first specs said. */
function identity(spec: ModelSpec): string {
  const { hidden, vocab, maxPositions, layers, rmsEps, tiedHead, ...whole } = spec;
  const { attention, feedForward, norms, residualScale } = layers[0]!;
  if (attention === null || layers.some(({ deltaRule }) => deltaRule)) return said(spec);
  const { heads, kvHeads, headDim, qkNorm, qBias, kBias, vBias, oBias, rope, scale, window, softCap, fusedQkv } =
    attention;
  const { outputGate } = attention;
  const { intermediate, activation, bias: mlpBias, fusedGateUp } = feedForward;
  const { rotaryShare, shortFactors, longFactors, queryScale, ...turning } = rope;
  const later = { queryScale, shortFactors, longFactors, fusedQkv, fusedGateUp, outputGate };
  const further = { ...whole, norms, residualScale, scale, window, softCap, activation, rotaryShare, ...later };
  const first = said(layers[0]);
  const plain = said(further) === said(PLAIN) && layers.every((layer) => said(layer) === first);
  const sizes = { hidden, intermediate, layers: layers.length, heads, kvHeads, headDim, vocab, maxPositions };
  const common = { ...sizes, rmsEps, tiedHead, qkNorm, qBias, kBias, vBias, oBias, mlpBias, rope: turning };
  return said(common) + (plain ? "" : said(spec));
}

const PLAIN = {
  normAddsOne: false,
  embeddingScale: 1,
  logitScale: 1,
  logitSoftCap: 0,
  norms: "before",
  residualScale: 1,
  scale: 0,
  window: 0,
  softCap: 0,
  activation: "silu",
  rotaryShare: 1,
};

async function hashWeights(config: ModelSpec, tensors: readonly TensorLocation[]): Promise<string> {
  const hash = createHash("sha256").update(identity(config));
  const files = new FileBlocks();
  try {
    for (const tensor of tensors.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const { name, dtype, shape, packed } = tensor;
      const parts = packed ? [tensor, packed.scales, ...(packed.zeros ? [packed.zeros] : [])] : [tensor];
      hash.update(`\n${name} ${dtype} ${shape.join("x")}${packed ? ` ${packed.packing} ${packed.group}` : ""}\n`);
      for (const { file, offset, bytes } of parts) {
        for (let done = 0; done < bytes; ) {
          const piece = (await files.from(file, offset + done)).subarray(0, bytes - done);
          if (piece.length === 0) throw new ModelFileError(file, `ends inside ${name}`, { param: name });
          hash.update(piece);
          done += piece.length;
        }
      }
    }
  } finally {
    await files.close();
  }
  return hash.digest("hex");
}

/** Small tensors of a layer lie together, in another order than that of their names: in blocks of this many bytes. */
const BLOCK_BYTES = 2 ** 20;
const MAX_BLOCKS = 4;

interface Block {
  file: string;
  index: number;
  memory: Buffer;
  length: number;
}

/** Files that are read in blocks, of which the last are kept. */
class FileBlocks {
  private readonly files = new Map<string, { handle: FileHandle; size: number }>();
  /** The last one used last. */
  private readonly blocks: Block[] = [];

  /** What a file holds from `position` on, up to the block's end; empty at the end of the file. It is valid until the next call. */
  async from(file: string, position: number): Promise<Uint8Array> {
    const index = Math.floor(position / BLOCK_BYTES);
    const at = this.blocks.findIndex((block) => block.file === file && block.index === index);
    const block = at < 0 ? await this.read(file, index) : this.blocks.splice(at, 1)[0]!;
    this.blocks.push(block);
    return block.memory.subarray(position - index * BLOCK_BYTES, block.length);
  }

  async close(): Promise<void> {
    for (const { handle } of this.files.values()) await handle.close();
  }

  private async read(file: string, index: number): Promise<Block> {
    const { handle, size } = await this.opened(file);
    const memory = this.blocks.length < MAX_BLOCKS ? Buffer.allocUnsafe(BLOCK_BYTES) : this.blocks.shift()!.memory;
    const length = Math.max(0, Math.min(BLOCK_BYTES, size - index * BLOCK_BYTES));
    const isWhole = await readAt(handle, memory.subarray(0, length), index * BLOCK_BYTES);
    if (!isWhole) throw new ModelFileError(file, "became shorter while it was read");
    return { file, index, memory, length };
  }

  private async opened(file: string): Promise<{ handle: FileHandle; size: number }> {
    const known = this.files.get(file);
    if (known) return known;
    const handle = await openRegularFile(file);
    const opened = { handle, size: 0 };
    this.files.set(file, opened);
    opened.size = (await handle.stat()).size;
    return opened;
  }
}
