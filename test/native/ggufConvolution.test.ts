// A GGUF file of LFM2, by the keys and names that llama.cpp gives, is the model of the folder that it holds the tensors of.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type TypedValue, writeGguf } from "../../src/gguf/writeGguf.js";
import { readSafetensors } from "../../src/weights/safetensors.js";
import { openWeightFiles, openWeightFolder } from "../../src/weights/weightFolder.js";
import { caseFolder, expected, loadWeights, promptLogprobs, relativeError } from "./referenceModel.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-gguf-convolution-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NAMES: Record<string, string> = {
  "model.embed_tokens": "token_embd",
  "model.embedding_norm": "token_embd_norm",
  "conv.in_proj": "shortconv.in_proj",
  "conv.conv": "shortconv.conv",
  "conv.out_proj": "shortconv.out_proj",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.out_proj": "attn_output",
  "self_attn.q_layernorm": "attn_q_norm",
  "self_attn.k_layernorm": "attn_k_norm",
  "feed_forward.w1": "ffn_gate",
  "feed_forward.w2": "ffn_down",
  "feed_forward.w3": "ffn_up",
  operator_norm: "attn_norm",
  ffn_norm: "ffn_norm",
};

async function written(name: string, changes: Record<string, TypedValue> = {}): Promise<string> {
  const { tensors } = await readSafetensors(join(caseFolder("lfm2"), "model.safetensors"));
  const file = join(folder, `${name}.gguf`);
  const list = [...tensors].map(([own, { data, shape }]) => {
    const [, layer, place] = /^(?:model\.layers\.(\d+)\.)?(.+)\.weight$/.exec(own)!;
    return {
      name: `${layer === undefined ? "" : `blk.${layer}.`}${NAMES[place!]!}.weight`,
      shape: shape.filter((size) => size !== 1),
      type: "F32" as const,
      content: () => [new Uint8Array(data.slice().buffer)],
    };
  });
  const metadata: Record<string, TypedValue> = {
    "general.architecture": { string: "lfm2" },
    "lfm2.block_count": { uint32: 4 },
    "lfm2.context_length": { uint32: 512 },
    "lfm2.embedding_length": { uint32: 48 },
    "lfm2.feed_forward_length": { uint32: 96 },
    "lfm2.attention.head_count": { uint32: 4 },
    "lfm2.attention.head_count_kv": { int32s: [0, 2, 0, 0] },
    "lfm2.attention.layer_norm_rms_epsilon": { float32: 1e-5 },
    "lfm2.rope.freq_base": { float32: 1e6 },
    "lfm2.shortconv.l_cache": { uint32: 3 },
    "lfm2.vocab_size": { uint32: 90 },
  };
  await writeGguf(file, new Map(Object.entries({ ...metadata, ...changes })), list, () => {});
  return file;
}

describe("a GGUF file of LFM2", () => {
  it("is the model of the folder that it was made of, and computes the same", async () => {
    const weights = await openWeightFiles(await written("whole"));
    const { config } = await openWeightFolder(caseFolder("lfm2"));
    // Metadata has 24 bits.
    expect({ ...weights.config, rmsEps: config.rmsEps }).toEqual(config);
    const model = await loadWeights(weights);
    const { rows, floats } = expected("lfm2");
    for (const [r, row] of rows.entries()) {
      expect(relativeError(await promptLogprobs(model, row), floats(`row${r}.logprobs`))).toBeLessThan(1e-4);
    }
    model.close();
  });

  it("is refused by name where its layers have several numbers of key-value heads", async () => {
    const key = "lfm2.attention.head_count_kv";
    const several = await written("several", { [key]: { int32s: [0, 2, 4, 0] } });
    await expect(openWeightFiles(several)).rejects.toMatchObject({ param: key });
    const few = await written("few", { [key]: { int32s: [0, 2] } });
    await expect(openWeightFiles(few)).rejects.toMatchObject({ param: key });
  });
});
