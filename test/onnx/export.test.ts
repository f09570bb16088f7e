// Decoders written as ONNX, run by ONNX Runtime, against what PyTorch computes (test/reference/models).

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type OnnxOptions, writeOnnxFolder } from "../../src/onnx/writeOnnxFolder.js";
import {
  CASES,
  type Case,
  caseAdapter,
  caseFolder,
  expected,
  hasExperts,
  isRecurrent,
  sharesKeys,
} from "../native/referenceModel.js";
import { DecoderSession } from "./session.js";

const folder = mkdtempSync(join(tmpdir(), "onnx-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NO_ADAPTER = { spec: { rank: 1, alpha: 1, rslora: false, targets: [] }, tensors: new Map() };

async function written(name: Case, adapter: Parameters<typeof writeOnnxFolder>[2], options: OnnxOptions = {}) {
  const target = mkdtempSync(join(folder, `${name}-`));
  await writeOnnxFolder(target, caseFolder(name), adapter, options);
  return target;
}

const furthest = (a: ArrayLike<number>, b: ArrayLike<number>) => {
  expect(a.length).toBe(b.length);
  let most = 0;
  for (let i = 0; i < a.length; i++) most = Math.max(most, Math.abs(a[i]! - b[i]!));
  return most;
};

it.each(CASES.filter(isRecurrent))("refuses %s by name", async (name) => {
  await expect(written(name, NO_ADAPTER)).rejects.toThrow(
    /layers\[\d\]\.(deltaRule|shortConvolution|experts|attention\.outputGate) .*not written/,
  );
});

it.each(CASES.filter((name) => hasExperts(name) && !isRecurrent(name)))("refuses %s by name", async (name) => {
  await expect(written(name, NO_ADAPTER)).rejects.toThrow(/layers\[0\]\.experts .*not written/);
});

it.each(CASES.filter(sharesKeys))("refuses %s by name", async (name) => {
  await expect(written(name, NO_ADAPTER)).rejects.toThrow(/(tokenInputs|layers\[\d\]\.scaled) .*not written/);
});

describe.each(CASES.filter((name) => !isRecurrent(name) && !hasExperts(name) && !sharesKeys(name)))("%s", (name) => {
  const reference = expected(name);
  const rows = reference.rows.map((row) => [...row]);

  it("computes PyTorch's logits: at once, in pieces, and behind padding", async () => {
    const session = await DecoderSession.open(join(await written(name, NO_ADAPTER), "onnx/model.onnx"));
    for (const [i, tokens] of rows.entries()) {
      const logits = reference.floats(`row${i}.logits`);
      const vocab = logits.length / tokens.length;
      expect(furthest((await session.run(tokens)).logits, logits)).toBeLessThan(1e-3);

      const cut = Math.floor(tokens.length / 2);
      const first = await session.run(tokens.slice(0, cut));
      const second = await session.run(tokens.slice(cut, -1), first.past);
      const third = await session.run(tokens.slice(-1), second.past);
      const pieces = [first, second, third].flatMap((piece) => [...piece.logits]);
      expect(furthest(pieces, logits)).toBeLessThan(1e-3);

      const padded = await session.run([0, 0, 0, ...tokens], session.empty(), 3);
      expect(furthest(padded.logits.subarray(3 * vocab), logits)).toBeLessThan(1e-3);
    }
    await session.close();
  });

  it("has the adapter in its weights", async () => {
    const session = await DecoderSession.open(join(await written(name, await caseAdapter(name)), "onnx/model.onnx"));
    for (const [i, tokens] of rows.entries()) {
      const logits = (await session.run(tokens)).logits;
      expect(furthest(logits, reference.floats(`row${i}.adapter_logits`))).toBeLessThan(1e-3);
    }
    await session.close();
  });
});
