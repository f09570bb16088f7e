// Messages against those that the interface's own client makes and reads (the Python package tinker 0.38).

import { describe, expect, it } from "vitest";
import { decodePass, decodeSample, encodePass, type LossInput } from "./tinkerMessages.js";

const hex = (text: string) => new Uint8Array(Buffer.from(text, "hex"));

const tensor = (data: number[], dtype: "int64" | "float32") => ({ data, dtype, shape: [data.length] });
const row = (tokens: number[], targets: number[], weights: number[]) => ({
  model_input: { chunks: [{ tokens }] },
  loss_fn_inputs: { target_tokens: tensor(targets, "int64"), weights: tensor(weights, "float32") },
});
const input: LossInput = {
  loss_fn: "cross_entropy",
  data: [row([5, 6, 70000], [6, 70000, 8], [0, 1, -0.5]), row([9], [10], [2])],
};

/** ForwardBackwardRequest of `input` for the model "run-1", number 300. */
const REQUEST =
  "0a0572756e2d3110ac021a640a100a0e0a0c05000000060000007011010012300a0d7461726765745f746f6b656e73121f0a18060000000000000070" +
  "1101000000000008000000000000001802220103121e0a077765696768747312130a0c000000000000803f000000bf18012201031a440a080a060a04" +
  "0900000012200a0d7461726765745f746f6b656e73120f0a080a00000000000000180222010112160a0777656967687473120b0a0400000040180122" +
  "0101220d63726f73735f656e74726f7079";
/** Two rows, of three and of one, in one record; and as bfloat16 in two. */
const OUTPUT =
  "0a0f746d6c3a41727261795265636f726412410a0178123a0a086c6f6770726f6273122e0a10000000bf0000a0bf000040c0000000be121800000000" +
  "000000000c000000000000001000000000000000180118021a130a086c6f73733a73756d11000000000000f83f";
const BFLOAT16 =
  "122c12280a086c6f6770726f6273121c0a0600bfa0bf40c012100000000000000000060000000000000018041801122812240a086c6f6770726f6273" +
  "12180a0200be12100000000000000000020000000000000018041801";
const SAMPLE = "0a160801120807000000701101001a08000080be000000c00a0c1204020000001a04000080bf2040";

it("writes rows as the client does", () => {
  expect(Buffer.from(encodePass("run-1", 300, input, false)).toString("hex")).toBe(REQUEST);
  expect(Buffer.from(encodePass("run-1", 300, input, true)).toString("hex")).toBe(`${REQUEST}3001`);
});

it("reads results as the client does", () => {
  const outputs = [{ logprobs: { data: [-0.5, -1.25, -3] } }, { logprobs: { data: [-0.125] } }];
  expect(decodePass(hex(OUTPUT))).toEqual({ loss_fn_outputs: outputs, metrics: { "loss:sum": 1.5 } });
  expect(decodePass(hex(BFLOAT16))).toEqual({ loss_fn_outputs: outputs, metrics: {} });
  expect(decodeSample(hex(SAMPLE))).toEqual({
    sequences: [
      { tokens: [7, 70000], logprobs: [-0.25, -2] },
      { tokens: [2], logprobs: [-1] },
    ],
  });
});

describe("what is cut off or none", () => {
  it.each([OUTPUT.slice(0, -8), "0a", "0aff", "07", "120818ffffffffffff7f", `12${"ff".repeat(11)}`])(
    "is an error: %#",
    (text) => {
      expect(() => decodePass(hex(text))).toThrow(RangeError);
    },
  );
});
