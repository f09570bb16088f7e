import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { writeSafetensors } from "../../test/fixtures/writeSafetensors.js";
import { ModelFileError } from "../errors.js";
import { openRuntime } from "../runtime/runtime.js";
import { writeMergedFolder } from "./mergedFolder.js";
import { readSafetensors } from "./safetensors.js";
import { readSafetensorsHeader } from "./safetensorsHeader.js";
import { openWeightFolder } from "./weightFolder.js";

const models = fileURLToPath(new URL("../../test/reference/models", import.meta.url));
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "anneal-weights-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function copy(name: string): void {
  cpSync(join(models, name), folder, { recursive: true });
}

async function failure(): Promise<ModelFileError> {
  const error = await openWeightFolder(folder).then(
    () => new Error("the folder was accepted"),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ModelFileError);
  return error as ModelFileError;
}

/** Rewrites the header of a safetensors file, leaving its data. */
function editHeader(
  file: string,
  edit: (header: Record<string, { dtype: string; shape: number[]; data_offsets: number[] }>) => void,
): void {
  const bytes = readFileSync(file);
  const length = Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString());
  edit(header);
  const text = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(file, Buffer.concat([size, text, bytes.subarray(8 + length)]));
}

describe("openWeightFolder", () => {
  it("finds every tensor of a sharded folder and of a single file", async () => {
    const sharded = await openWeightFolder(join(models, "llama"));
    expect(new Set(sharded.tensors.map(({ file }) => file)).size).toBe(14);
    expect(sharded.dtype).toBe("float32");
    const single = await openWeightFolder(join(models, "qwen3"));
    expect(single.tensors.map(({ name }) => name)).toContain("model.layers.2.self_attn.k_norm.weight");
    expect(single.dtype).toBe("bfloat16");
  });

  it("hashes values and configuration, not how files are cut", async () => {
    copy("llama");
    const { tensors, content } = await openWeightFolder(folder);
    const before = await content.hash();
    expect(before).toMatch(/^[0-9a-f]{64}$/);
    const merged = Buffer.concat(tensors.map((t) => readFileSync(t.file).subarray(t.offset, t.offset + t.bytes)));
    let end = 0;
    const header = Object.fromEntries(
      tensors.map(({ name, dtype, shape, bytes }) => {
        end += bytes;
        return [name, { dtype, shape, data_offsets: [end - bytes, end] }];
      }),
    );
    const text = Buffer.from(JSON.stringify(header));
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    writeFileSync(join(folder, "model.safetensors"), Buffer.concat([size, text, merged]));
    expect(await (await openWeightFolder(folder)).content.hash()).toBe(before);
    merged[5]! ^= 1;
    writeFileSync(join(folder, "model.safetensors"), Buffer.concat([size, text, merged]));
    expect(await (await openWeightFolder(folder)).content.hash()).not.toBe(before);
  });

  it("ignores rotary tables and the copy of a tied head, but no head of another kind", async () => {
    copy("qwen3");
    const file = join(folder, "model.safetensors");
    editHeader(file, (header) => {
      header["model.layers.0.self_attn.rotary_emb.inv_freq"] = { dtype: "F32", shape: [0], data_offsets: [0, 0] };
    });
    const { tensors } = await readSafetensors(file);
    const { shape, data } = tensors.get("model.embed_tokens.weight")!;
    const opened = async (head: Float32Array) => {
      await writeSafetensors(file, new Map([...tensors, ["lm_head.weight", { shape, data: head }]]));
      const { config, tensors: found } = await openWeightFolder(folder);
      return [config.tiedHead, found.some(({ name }) => name === "lm_head.weight")];
    };
    expect(await opened(data)).toEqual([true, false]);
    expect(await opened(data.with(-1, 3))).toEqual([false, true]);
    const target = join(folder, "merged");
    mkdirSync(target);
    const none = { spec: { rank: 1, alpha: 1, rslora: false, targets: [] }, tensors: new Map() };
    await writeMergedFolder(target, folder, none, {});
    expect(JSON.parse(readFileSync(join(target, "config.json"), "utf8")).tie_word_embeddings).toBe(false);
  });

  it("ignores what makes keys of layers that attend to those of others, as published folders have it, but nothing else", async () => {
    copy("gemma4");
    const file = join(folder, "model.safetensors");
    const { tensors } = await readSafetensors(file);
    const own = await openWeightFolder(folder);
    const unused = { shape: [32, 36], data: new Float32Array(32 * 36) };
    const more = ["k_proj.weight", "v_proj.weight", "k_norm.weight"].map(
      (name) => [`model.layers.4.self_attn.${name}`, unused] as const,
    );
    await writeSafetensors(file, new Map([...tensors, ...more]));
    const found = await openWeightFolder(folder);
    expect(found.tensors.map(({ name }) => name)).toEqual(own.tensors.map(({ name }) => name));
    for (const other of ["model.layers.2.self_attn.v_norm.weight", "model.layers.4.self_attn.o_norm.weight"]) {
      await writeSafetensors(file, new Map([...tensors, [other, unused]]));
      await expect(openWeightFolder(folder)).rejects.toMatchObject({ param: other });
    }
  });

  it("is written with the numbers of config.json as they are spelled", async () => {
    copy("qwen3");
    const path = join(folder, "config.json");
    const spelled = '"attn_logit_softcapping": 50.0,\n  "list": [\n    1e-05,\n    {}\n  ]';
    writeFileSync(path, `\uFEFF${readFileSync(path, "utf8").replace("{", `{ ${spelled},`)}`);
    const target = join(folder, "merged");
    mkdirSync(target);
    const none = { spec: { rank: 1, alpha: 1, rslora: false, targets: [] }, tensors: new Map() };
    await writeMergedFolder(target, folder, none, {});
    expect(readFileSync(join(target, "config.json"), "utf8")).toContain(`{\n  ${spelled},\n`);
  });

  it("names a missing, an unexpected and a misshapen tensor", async () => {
    copy("qwen3");
    const file = join(folder, "model.safetensors");
    const name = "model.layers.1.mlp.up_proj.weight";
    editHeader(file, (header) => {
      header["model.layers.1.mlp.extra.weight"] = header[name]!;
      delete header[name];
    });
    expect((await failure()).param).toBe(name);
    editHeader(file, (header) => {
      header[name] = header["model.layers.1.mlp.extra.weight"]!;
      header["model.layers.1.mlp.extra.weight"] = { dtype: "F32", shape: [0], data_offsets: [0, 0] };
    });
    expect((await failure()).param).toBe("model.layers.1.mlp.extra.weight");
    editHeader(file, (header) => {
      delete header["model.layers.1.mlp.extra.weight"];
      header[name]!.shape.reverse();
    });
    expect((await failure()).message).toContain("[64,144], config.json asks for [144,64]");
    editHeader(file, (header) => {
      header[name] = { ...header[name]!, shape: [144, 64], dtype: "I16" };
    });
    expect((await failure()).message).toContain("dtype I16");
  });

  it("names the file that is missing or damaged", async () => {
    expect((await failure()).file).toBe(join(folder, "config.json"));
    copy("qwen3");
    const file = join(folder, "model.safetensors");
    const whole = readFileSync(file);
    const damages: [string, () => void][] = [
      ["cut short", () => truncateSync(file, whole.length - 1)],
      ["shorter than 8 bytes", () => truncateSync(file, 5)],
      ["bytes long", () => truncateSync(file, 20)],
      [
        "not valid JSON",
        () => writeFileSync(file, Buffer.concat([whole.subarray(0, 8), Buffer.alloc(whole.length, "x")])),
      ],
      ["bytes long", () => writeFileSync(file, Buffer.alloc(64, 0xff))],
      [
        "not a JSON object",
        () => writeFileSync(file, Buffer.concat([Buffer.from([2, 0, 0, 0, 0, 0, 0, 0]), Buffer.from("[]")])),
      ],
    ];
    for (const [message, damage] of damages) {
      writeFileSync(file, whole);
      damage();
      expect(await failure()).toMatchObject({ file, message: expect.stringContaining(message) });
    }
    rmSync(file);
    expect((await failure()).message).toContain("neither");
    writeFileSync(join(folder, "config.json"), "{ not json");
    expect((await failure()).file).toBe(join(folder, "config.json"));
  });

  it.each<[string, (entry: { dtype: string; shape: number[]; data_offsets: number[] }) => void]>([
    ["overlap", (entry) => entry.data_offsets.splice(0, 2, entry.data_offsets[0]! + 2, entry.data_offsets[1]! + 2)],
    ["data_offsets", (entry) => entry.data_offsets.splice(0, 2, -2, entry.data_offsets[1]!)],
    ["data_offsets", (entry) => entry.data_offsets.splice(0, 2, 2 ** 53, 2 ** 53 + 2)],
    ["data_offsets", (entry) => entry.data_offsets.reverse()],
    ["data_offsets", (entry) => entry.data_offsets.push(1)],
    ["shape", (entry) => entry.shape.push(-1)],
    ["shape", (entry) => entry.shape.push(0.5)],
    ["dtype", (entry) => Object.assign(entry, { dtype: "F7" })],
  ])("refuses a header with wrong %s", async (message, damage) => {
    copy("qwen3");
    editHeader(join(folder, "model.safetensors"), (header) => damage(header["model.layers.0.mlp.up_proj.weight"]!));
    expect((await failure()).message).toContain(message);
  });

  it("refuses an index that names no file of the folder, or the wrong one", async () => {
    copy("llama");
    const index = join(folder, "model.safetensors.index.json");
    const original = JSON.parse(readFileSync(index, "utf8"));
    const name = "model.norm.weight";
    for (const shard of ["../secret.safetensors", "/etc/passwd", "..", "a\\b", 5, "model-00099-of-00014.safetensors"]) {
      writeFileSync(index, JSON.stringify({ weight_map: { ...original.weight_map, [name]: shard } }));
      await failure();
    }
    const other = original.weight_map["model.embed_tokens.weight"];
    writeFileSync(index, JSON.stringify({ weight_map: { ...original.weight_map, [name]: other } }));
    expect((await failure()).param).toBe(`weight_map.${name}`);
  });

  it("leaves a file that is cut after its header was read to a typed error while loading", async () => {
    copy("qwen3");
    const { config, tensors, content } = await openWeightFolder(folder);
    const file = join(folder, "model.safetensors");
    const { tensors: stored } = await readSafetensorsHeader(file);
    truncateSync(file, stored.get("model.layers.1.mlp.up_proj.weight")!.offset + 10);
    const load = openRuntime().load({ config, tensors, dtype: "float32", kvPages: 1 });
    await expect(load).rejects.toMatchObject({ name: "ModelFileError", file });
    await expect(content.hash()).rejects.toMatchObject({ name: "ModelFileError", file });
    rmSync(file);
    const again = openRuntime().load({ config, tensors, dtype: "float32", kvPages: 1 });
    await expect(again).rejects.toMatchObject({ name: "ModelFileError", file });
  });
});
