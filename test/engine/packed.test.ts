// Folders of quantised weights, as compressed-tensors, GPTQ and AWQ have them, through the engine: chat, jobs by rewards and by
// examples, inspection.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { runCommand } from "../../src/cli/command.js";
import { doctor } from "../../src/cli/doctor.js";
import { Engine, gather, inspectModel } from "../../src/index.js";
import { printed } from "../cli/printed.js";
import { PACKED, type PackedName, packedFolder } from "../native/packedModel.js";

const root = mkdtempSync(join(tmpdir(), "anneal-packed-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const tokenizer = fileURLToPath(new URL("../reference/jobs/tokenizer", import.meta.url));

function folderOf(name: PackedName): string {
  const folder = join(root, name);
  cpSync(packedFolder(name), folder, { recursive: true });
  cpSync(tokenizer, folder, { recursive: true });
  return folder;
}

describe.each(PACKED)("%s", (name) => {
  it("is chatted with, and trained on the bits it samples with", async () => {
    await using engine = await Engine.open({ models: [folderOf(name)] });
    expect(await engine.baseModels.list()).toEqual([name]);
    const model = await engine.models.create({ project: "p", name: "n", base_model: name });
    const trajectory_groups = await gather(engine, {
      model,
      scenarios: ["river", "candle"],
      groupSize: 4,
      rollout: async ({ chat, scenario, seed }) => {
        await chat(scenario, { max_tokens: 12 });
        return Number(seed % 7n);
      },
    });
    const experimental_config = { learning_rate: 1e-3 };
    const rl = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups, experimental_config });
    expect((await engine.trainingJobs.wait(rl.id)).status).toBe("succeeded");
    const { data } = await engine.trainingJobs.events(rl.id, { limit: 100 });
    const step = data.find(({ type }) => type === "gradient_step")!.data;
    expect(step).toMatchObject({ ratio_exact_share: 1, ratio_max: 1, ratio_min: 1, approx_kl: 0 });

    const examples = Array.from({ length: 4 }, () => ({
      messages: [
        { role: "user" as const, content: "Say it." },
        { role: "assistant" as const, content: "abc abc" },
      ],
    }));
    const config = { batch_size: 4, learning_rate: 1e-2, num_epochs: 25 };
    const sft = await engine.sftTrainingJobs.create({ model_id: model.id, data: examples, config });
    expect((await engine.trainingJobs.wait(sft.id)).status).toBe("succeeded");
    const reply = await engine.chat.completions.create({
      model: "local/p/n",
      messages: [{ role: "user", content: "Say it." }],
      temperature: 0,
      max_completion_tokens: 10,
    });
    expect(reply.choices[0]!.message.content).toBe("abc abc");
  });
});

it("says what it is, and what memory it takes", async () => {
  const folder = folderOf("gptq_v2");
  const { quantized, format, dtype, parameters, memory } = await inspectModel(folder);
  expect({ format, dtype }).toEqual({ format: "safetensors", dtype: "bfloat16" });
  expect(quantized.toSorted()).toEqual(["INT4_128", "INT4_32", "INT4_64", "INT8_128", "INT8_32"]);
  expect(memory.weights).toBeLessThan(parameters! * 1.5);
  const { out } = await printed(() => runCommand(doctor, [folder]));
  expect(out).toMatch(/INT4_128 and .* with bfloat16/);
});
