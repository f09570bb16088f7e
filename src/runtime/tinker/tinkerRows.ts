// Training rows as servers of Tinker's interface take them, and losses of which only the derivatives are known.

import { BadRequestError } from "../../errors.js";
import type { TrainRow } from "../trainer.js";
import { type LossInput, MAX_REQUEST_ROWS } from "./tinkerMessages.js";
import type { Dialect } from "./tinkerServer.js";

/** A row with all of its tokens. Entry t of every array is about token t + 1, so they are one shorter. */
export interface WholeRow {
  tokens: Int32Array;
  trained: Uint8Array;
  /** Tokens before the row's own. */
  prefixLength: number;
}

/** A row of which the gradient is known. */
export interface SlopedRow extends WholeRow {
  /** As computed by the server. */
  logprobs: Float32Array;
  /** d(loss) / d(logprob). */
  slopes: Float32Array;
}

/** Of one request: the servers' bound is on bytes, of which a token takes some tens. */
const MAX_REQUEST_TOKENS = 65_536;

/** @throws BadRequestError for what such servers do not compute. */
export function wholeRows(rows: readonly TrainRow[]): WholeRow[] {
  const whole: WholeRow[] = [];
  for (const { tokens: own, trained, temperatures, prefix, prefixLength = 0 } of rows) {
    if (temperatures?.some((value) => value !== 1)) {
      throw unsupported("temperatures", "logprobs at a temperature other than 1, so sample at 1");
    }
    const tokens = new Int32Array(prefixLength + own.length);
    if (prefix !== undefined) tokens.set(whole[prefix]!.tokens.subarray(0, prefixLength));
    tokens.set(own, prefixLength);
    const isTrained = new Uint8Array(Math.max(0, tokens.length - 1));
    for (let t = 0; t + 1 < own.length; t++) isTrained[prefixLength + t] = trained?.[t] ?? 1;
    whole.push({ tokens, trained: isTrained, prefixLength });
  }
  return whole;
}

/** What is asked for is nothing that servers of this interface do. */
export function unsupported(param: string, what: string): BadRequestError {
  return new BadRequestError(`a server with Tinker's interface does not do this: ${what}`, {
    code: "remote_unsupported",
    param,
  });
}

/** In the order given, so that few requests hold them. */
export function inRequests<T extends WholeRow>(rows: readonly T[]): T[][] {
  const requests: T[][] = [];
  let tokens = 0;
  for (const row of rows) {
    tokens += row.tokens.length;
    if (requests.length === 0 || tokens > MAX_REQUEST_TOKENS || requests.at(-1)!.length === MAX_REQUEST_ROWS) {
      requests.push([]);
      tokens = row.tokens.length;
    }
    requests.at(-1)!.push(row);
  }
  return requests;
}

/** For a pass without a gradient. */
export function toScore(rows: readonly WholeRow[]): LossInput {
  return { loss_fn: "cross_entropy", data: rows.map((row) => datum(row, { weights: Float32Array.from(row.trained) })) };
}

/**
 * A loss whose gradient by each logprob is the row's slope, so that any function of logprobs is trained by servers that know
 * these functions only. `total`: rows that an optimizer step has in all.
 *
 * Where losses are summed: cross entropy, of which the slope is minus the weight. Where they are averaged by their weights a
 * weight below 0 has no such meaning: there it is importance sampling at a ratio of 1, whose slope is minus the advantage
 * times the weight; weights of 1/n make the average a sum, and the mean over rows is undone by their number.
 * @throws BadRequestError where the server has not the function that is needed.
 */
export function toTrain(rows: readonly SlopedRow[], total: number, dialect: Dialect): LossInput {
  const loss = dialect.reduction === "sum" ? "cross_entropy" : "importance_sampling";
  if (dialect.losses && !dialect.losses.has(loss)) {
    throw unsupported("loss", `train without the loss function ${loss}; there are ${[...dialect.losses].join(", ")}`);
  }
  if (loss === "cross_entropy") {
    return { loss_fn: loss, data: rows.map((row) => datum(row, { weights: row.slopes.map((slope) => -slope) })) };
  }
  return {
    loss_fn: loss,
    data: rows.map((row) => {
      const { slopes, logprobs } = row;
      const count = slopes.reduce((sum, slope) => sum + (slope === 0 ? 0 : 1), 0);
      return datum(row, {
        weights: slopes.map((slope) => (slope === 0 ? 0 : 1 / count)),
        advantages: slopes.map((slope) => -slope * count * total),
        logprobs: logprobs.map((logprob, t) => (slopes[t] === 0 ? 0 : logprob)),
      });
    }),
  };
}

/** Of token 0 to the last but one, the one that follows each. */
function datum({ tokens }: WholeRow, inputs: Record<string, Float32Array>): LossInput["data"][number] {
  const tensor = (data: ArrayLike<number>, dtype: "int64" | "float32") => ({
    data: Array.from(data),
    dtype,
    shape: [data.length],
  });
  const floats = Object.entries(inputs).map(([name, values]) => [name, tensor(values, "float32")]);
  return {
    model_input: encoded(tokens.subarray(0, -1)),
    loss_fn_inputs: { target_tokens: tensor(tokens.subarray(1), "int64"), ...Object.fromEntries(floats) },
  };
}

export function encoded(tokens: ArrayLike<number>): { chunks: { type: string; tokens: number[] }[] } {
  return { chunks: [{ type: "encoded_text", tokens: Array.from(tokens) }] };
}

/** Logprobs of a pass's rows; null: the answer holds none that fit them. */
export function readLogprobs(rows: readonly WholeRow[], answer: Record<string, unknown>): Float32Array[] | null {
  const outputs = answer.loss_fn_outputs as { logprobs?: { data?: unknown } }[] | undefined;
  if (!Array.isArray(outputs) || outputs.length !== rows.length) return null;
  const found = rows.map(({ tokens }, r) => {
    const data = outputs[r]?.logprobs?.data;
    return Array.isArray(data) && data.length === tokens.length - 1 ? Float32Array.from(data as number[]) : null;
  });
  return found.includes(null) ? null : (found as Float32Array[]);
}
