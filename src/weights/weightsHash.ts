// What weights hash to: SHA-256, as hex, of the configuration and of every tensor's name, type, shape and bytes in order of
// name. It is the same however the tensors are spread over files, and stays the same when specs learn to say more.

import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { ModelFileError } from "../errors.js";
import { openRegularFile, readAt } from "../regularFile.js";
import type { ModelSpec, TensorLocation } from "../runtime/runtime.js";

const CHUNK_BYTES = 2 ** 20;

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
  const handles = new Map<string, FileHandle>();
  const chunk = Buffer.alloc(CHUNK_BYTES);
  try {
    for (const tensor of tensors.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const { name, dtype, shape, packed } = tensor;
      const parts = packed ? [tensor, packed.scales, ...(packed.zeros ? [packed.zeros] : [])] : [tensor];
      hash.update(`\n${name} ${dtype} ${shape.join("x")}${packed ? ` ${packed.packing} ${packed.group}` : ""}\n`);
      for (const { file, offset, bytes } of parts) {
        const handle = handles.get(file) ?? (await openRegularFile(file));
        handles.set(file, handle);
        for (let done = 0; done < bytes; ) {
          const piece = chunk.subarray(0, bytes - done);
          if (!(await readAt(handle, piece, offset + done))) {
            throw new ModelFileError(file, `ends inside ${name}`, { param: name });
          }
          hash.update(piece);
          done += piece.length;
        }
      }
    }
  } finally {
    for (const handle of handles.values()) await handle.close();
  }
  return hash.digest("hex");
}
