// One gradient from many rows: passes that fit in memory add up to the gradient of one pass. How rows are cut into passes
// follows from the rows alone, as long as there is room, so that the same rows give the same bits.

import { AnnealError, ConflictError } from "../errors.js";
import type { Trainer, TrainPass } from "../runtime/runtime.js";
import { cutIntoPasses, type PackedRow, type PassSizes, packRows } from "./packing.js";
import type { TokenRow } from "./tokenRow.js";

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
  /** Of a loss whose gradient by a row's values looks at no other rows than those that belong together. */
  readonly separable?: SeparableLoss;
}

export interface SeparableLoss {
  /** So many rows belong together, counted from the first. */
  readonly rowsTogether: number;
  /** What rows `from` to `to` - 1 add to the loss: its gradient is theirs in the gradient of the whole. */
  part(from: number, to: number): LossFunction;
}

export interface PassLimits extends PassSizes {
  /** Bytes that one pass may take; rows that do not fit together run in several passes. 0: no limit. */
  memoryBudget: number;
  /** Bytes up to which layers are kept rather than recomputed; absent: the budget. The numbers do not depend on it. */
  keepBytes?: number;
  signal?: AbortSignal;
}

type Values = RowValues & { metrics: Record<string, number> };
/** Of rows that were cut apart there are no metrics: those of the parts are not their sum. */
type PartValues = RowValues & { metrics: Record<string, number> | null };

/**
 * Adds the gradient of `loss` over all `rows` to the trainer's. Rows of one pass share their common beginnings. A separable
 * loss runs through passes that are just long enough for full speed, and so small that they can keep their activations; any
 * other needs the logprobs of all rows before the first gradient: one pass where they fit, else each row's forward pass runs
 * twice, with the same bits. After a rejection part of the gradient may have been added: clear it.
 */
export async function accumulateGradient(
  trainer: Trainer,
  rows: readonly TokenRow[],
  loss: LossFunction,
  limits: PassLimits,
): Promise<Values> {
  const gradient = new Gradient(trainer, rows, loss, limits);
  const values: RowValues = { logprobs: [], entropies: [] };
  let metrics: Record<string, number> | null = null;
  for (const { from, to, tokens } of cutIntoPasses(rows, sizesFor(trainer, limits), gradient.rowsTogether)) {
    const part = await gradient.add(from, to, tokens <= limits.maxTokens);
    values.logprobs.push(...part.logprobs);
    values.entropies.push(...part.entropies);
    if (to - from === rows.length) metrics = part.metrics;
  }
  return { ...values, metrics: metrics ?? loss(values).metrics };
}

/** A trainer elsewhere gets passes as long as they may be: each is a call over a network. */
function sizesFor(trainer: Trainer, { maxTokens, passTokens }: PassSizes): PassSizes {
  return { maxTokens, passTokens: trainer.elsewhere ? maxTokens : passTokens };
}

/** The gradient of one loss, part by part. */
class Gradient {
  readonly #trainer: Trainer;
  readonly #rows: readonly TokenRow[];
  readonly #loss: LossFunction;
  readonly #options: PassOptions;

  constructor(trainer: Trainer, rows: readonly TokenRow[], loss: LossFunction, limits: PassLimits) {
    this.#trainer = trainer;
    this.#rows = rows;
    this.#loss = loss;
    this.#options = { ...limits, entropyGradient: loss.usesEntropy ?? false };
  }

  get rowsTogether(): number {
    return this.#loss.separable?.rowsTogether ?? this.#rows.length;
  }

  #part(from: number, to: number): LossFunction {
    return to - from === this.#rows.length ? this.#loss : this.#loss.separable!.part(from, to);
  }

  /** Adds that of rows `from` to `to` - 1: in one pass where that is to be tried and has room, else in as few as have. */
  async add(from: number, to: number, inOnePass: boolean): Promise<PartValues> {
    const rows = this.#rows.slice(from, to);
    const packed = packRows(rows);
    const pass = inOnePass ? await forwardIfItFits(this.#trainer, packed, this.#options) : null;
    if (pass) {
      try {
        const values = toRowValues(rows, packed, pass);
        checkFinite(values);
        const { metrics, ...gradients } = this.#part(from, to)(values);
        if (hasGradient(gradients)) await pass.backward(...toDevice(packed, gradients));
        return { ...values, metrics };
      } finally {
        pass.close();
      }
    }
    const { rowsTogether } = this;
    if (rows.length <= rowsTogether) return this.#addEvaluated(from, to);
    const middle = from + Math.ceil(rows.length / rowsTogether / 2) * rowsTogether;
    const first = await this.add(from, middle, true);
    const second = await this.add(middle, to, true);
    return {
      logprobs: [...first.logprobs, ...second.logprobs],
      entropies: [...first.entropies, ...second.entropies],
      metrics: null,
    };
  }

  /** Of rows that belong together and do not fit in one pass: all their values, then pass by pass the gradient. */
  async #addEvaluated(from: number, to: number): Promise<Values> {
    const rows = this.#rows.slice(from, to);
    const values = await evaluateRows(this.#trainer, rows, this.#options);
    checkFinite(values);
    const { metrics, ...gradients } = this.#part(from, to)(values);
    for (const pass of cutIntoPasses(rows, sizesFor(this.#trainer, this.#options))) {
      const own = slice(gradients, pass.from, pass.to);
      await backward(this.#trainer, rows.slice(pass.from, pass.to), own, this.#options);
    }
    return { ...values, metrics };
  }
}

/** The pass; null where several rows need more memory than the budget. */
function forwardIfItFits(trainer: Trainer, rows: PackedRow[], options: PassOptions): Promise<TrainPass | null> {
  return ifItFits(rows, () => trainer.forward(rows, options));
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
  const evaluate = async (own: readonly TokenRow[]): Promise<void> => {
    const packed = packRows(own);
    const { memoryBudget, signal } = limits;
    const pass = await ifItFits(packed, () => trainer.evaluate(packed, { adapter, memoryBudget, signal }));
    if (!pass) {
      const half = Math.ceil(own.length / 2);
      await evaluate(own.slice(0, half));
      return evaluate(own.slice(half));
    }
    const values = toRowValues(own, packed, pass);
    result.logprobs.push(...values.logprobs);
    result.entropies.push(...values.entropies);
  };
  for (const { from, to } of cutIntoPasses(rows, sizesFor(trainer, limits))) await evaluate(rows.slice(from, to));
  return result;
}

/** What a pass over rows gives; null where several rows need more memory than the budget. */
async function ifItFits<T>(rows: readonly PackedRow[], pass: () => Promise<T>): Promise<T | null> {
  try {
    return await pass();
  } catch (error) {
    const doesNotFit = error instanceof AnnealError && error.code === "insufficient_memory";
    if (doesNotFit && error.param === "memoryBudget" && rows.length > 1) return null;
    throw error;
  }
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

/** @throws ConflictError where weights have grown until what they compute is no number any more. */
function checkFinite({ logprobs }: RowValues): void {
  if (logprobs.every((row) => row.every(Number.isFinite))) return;
  throw new ConflictError("the trained weights have diverged: their logprobs are not finite any more", {
    code: "weights_diverged",
    hint: "train with a lower learning rate, from a checkpoint before",
  });
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
