// One gradient from many rows: passes that fit in memory add up to the gradient of one pass.

import { AnnealError } from "../errors.js";
import type { Trainer, TrainPass } from "../runtime/runtime.js";
import { type PackedRow, packRows } from "./packing.js";
import type { TokenRow } from "./rows.js";

/** Per row, entry i about token i: what the current weights say of the trained tokens; 0 elsewhere. */
export interface RowValues {
  /** Natural logarithms. */
  logprobs: Float32Array[];
  /** In nats, over the whole vocabulary. */
  entropies: Float32Array[];
}

/** A loss as a function of all rows' logprobs and entropies. */
export interface LossFunction {
  (
    values: RowValues,
  ): {
    /** Per row, entry i: d(loss) / d(logprob of token i); used where the token is trained. */
    gradient: Float32Array[];
    /** Per row, entry i: d(loss) / d(entropy at token i); of a loss that uses entropies. */
    entropyGradient?: Float32Array[];
    metrics: Record<string, number>;
  };
  /** Whether it has a gradient by entropies, which costs another product with the head. */
  readonly usesEntropy?: true;
}

export interface PassLimits {
  /** Tokens in one pass, shared beginnings counted in every row; a longer row runs alone. */
  maxTokens: number;
  /** Bytes that one pass may take; rows that do not fit together run in several passes. 0: no limit. */
  memoryBudget: number;
  /** Bytes up to which layers are kept rather than recomputed; absent: the budget. The numbers do not depend on it. */
  keepBytes?: number;
  signal?: AbortSignal;
}

/**
 * Adds the gradient of `loss` over all `rows` to the trainer's. Rows of one pass share their common beginnings. With more
 * than one pass all logprobs are computed first, since a loss may look at all of them; the second forward pass of a row
 * gives the same bits. After a rejection part of the gradient may have been added: clear it.
 */
export async function accumulateGradient(
  trainer: Trainer,
  rows: readonly TokenRow[],
  loss: LossFunction,
  limits: PassLimits,
): Promise<RowValues & { metrics: Record<string, number> }> {
  const batches = splitRows(rows, limits.maxTokens);
  const options = { ...limits, entropyGradient: loss.usesEntropy ?? false };
  const single = batches.length === 1 ? packRows(batches[0]!) : null;
  const pass = single && (await forwardIfItFits(trainer, single, options));
  if (pass) {
    try {
      const values = toRowValues(rows, single!, pass);
      const { metrics, ...gradients } = loss(values);
      if (hasGradient(gradients)) await pass.backward(...toDevice(single!, gradients));
      return { ...values, metrics };
    } finally {
      pass.close();
    }
  }
  const values = await evaluateRows(trainer, rows, limits);
  const { metrics, ...gradients } = loss(values);
  let start = 0;
  for (const batch of batches) {
    await backward(trainer, batch, slice(gradients, start, start + batch.length), options);
    start += batch.length;
  }
  return { ...values, metrics };
}

/** The pass; null where several rows need more memory than the budget. */
async function forwardIfItFits(trainer: Trainer, rows: PackedRow[], options: PassOptions): Promise<TrainPass | null> {
  try {
    return await trainer.forward(rows, options);
  } catch (error) {
    const doesNotFit = error instanceof AnnealError && error.code === "insufficient_memory";
    if (doesNotFit && error.param === "memoryBudget" && rows.length > 1) return null;
    throw error;
  }
}

/** Forward and backward over rows whose gradient is known, in halves where they do not fit in memory together. */
async function backward(
  trainer: Trainer,
  rows: readonly TokenRow[],
  gradients: Gradients,
  options: PassOptions,
): Promise<void> {
  if (!hasGradient(gradients)) return;
  const packed = packRows(rows);
  const pass = await forwardIfItFits(trainer, packed, options);
  if (!pass) {
    const half = Math.ceil(rows.length / 2);
    await backward(trainer, rows.slice(0, half), slice(gradients, 0, half), options);
    return backward(trainer, rows.slice(half), slice(gradients, half, rows.length), options);
  }
  try {
    await pass.backward(...toDevice(packed, gradients));
  } finally {
    pass.close();
  }
}

/** The values of all rows without keeping anything. `adapter`: a version, 0 the base model, absent the trainer's own weights. */
export async function evaluateRows(
  trainer: Trainer,
  rows: readonly TokenRow[],
  limits: PassLimits,
  adapter?: number,
): Promise<RowValues> {
  const result: RowValues = { logprobs: [], entropies: [] };
  for (const batch of splitRows(rows, limits.maxTokens)) {
    const packed = packRows(batch);
    const pass = await trainer.evaluate(packed, { adapter, signal: limits.signal });
    const values = toRowValues(batch, packed, pass);
    result.logprobs.push(...values.logprobs);
    result.entropies.push(...values.entropies);
  }
  return result;
}

function splitRows(rows: readonly TokenRow[], maxTokens: number): TokenRow[][] {
  const batches: TokenRow[][] = [];
  let room = 0;
  for (const row of rows) {
    if (batches.length === 0 || row.tokens.length > room) {
      batches.push([]);
      room = maxTokens;
    }
    batches.at(-1)!.push(row);
    room -= row.tokens.length;
  }
  return batches;
}

type Gradients = Omit<ReturnType<LossFunction>, "metrics">;
type PassOptions = PassLimits & { entropyGradient: boolean };

function hasGradient({ gradient, entropyGradient = [] }: Gradients): boolean {
  return [...gradient, ...entropyGradient].some((row) => row.some((value) => value !== 0));
}

/** Of rows `from` to `to` - 1. */
function slice({ gradient, entropyGradient }: Gradients, from: number, to: number): Gradients {
  return { gradient: gradient.slice(from, to), entropyGradient: entropyGradient?.slice(from, to) };
}

/** Own index t of a packed row is about its token t + 1; own token 0 is token `prefixLength` of the whole row. */
function toRowValues(
  rows: readonly TokenRow[],
  packed: readonly PackedRow[],
  pass: { logprobs: Float32Array[]; entropies: Float32Array[] },
): RowValues {
  const spread = (own: readonly Float32Array[]) =>
    rows.map((row, r) => {
      const whole = new Float32Array(row.tokens.length);
      const { trained, prefixLength = 0 } = packed[r]!;
      for (let t = 0; t < trained.length; t++) if (trained[t]) whole[prefixLength + t + 1] = own[r]![t]!;
      return whole;
    });
  return { logprobs: spread(pass.logprobs), entropies: spread(pass.entropies) };
}

function toDevice(
  packed: readonly PackedRow[],
  { gradient, entropyGradient }: Gradients,
): Parameters<TrainPass["backward"]> {
  const own = (whole: readonly Float32Array[]) =>
    packed.map(({ trained, prefixLength = 0 }, r) => {
      const values = new Float32Array(trained.length);
      for (let t = 0; t < trained.length; t++) if (trained[t]) values[t] = whole[r]![prefixLength + t + 1]!;
      return values;
    });
  return [own(gradient), entropyGradient && own(entropyGradient)];
}
