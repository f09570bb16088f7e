import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { COMMIT, LoopbackHub } from "../../test/fixtures/hub.js";
import type { PullProgress } from "../types/hub.js";
import { cachedModel, parseHubModel } from "./hubCache.js";
import { pullModel } from "./pullModel.js";

const weights = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31) % 251));
const files = {
  "README.md": "# Small",
  LICENSE: "free",
  "config.json": '{"model_type": "llama"}',
  "tokenizer.json": "t".repeat(10_000),
  "tokenizer_config.json": "{}",
  "chat_template.jinja": "{{ messages }}",
  "additional_chat_templates/tool_use.jinja": "{{ tools }}",
  "model.safetensors": weights,
  "consolidated.safetensors": weights.subarray(1),
  "pytorch_model.bin": weights.subarray(2),
  "onnx/model.onnx": weights.subarray(3),
  "original/params.json": "{}",
  "1_Pooling/config.json": "{}",
};
const needed = [
  ...[
    "1_Pooling/config.json",
    "LICENSE",
    "additional_chat_templates/tool_use.jinja",
    "chat_template.jinja",
    "config.json",
  ],
  ...["model.safetensors", "tokenizer.json", "tokenizer_config.json"],
];

let cache: string;
let hub: LoopbackHub;
beforeEach(async () => {
  cache = mkdtempSync(join(tmpdir(), "hub-"));
  hub = await LoopbackHub.open("owner/small", files);
  vi.stubEnv("HF_ENDPOINT", hub.endpoint);
  vi.stubEnv("HF_HOME", cache);
  for (const name of ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN"]) {
    vi.stubEnv(name, "");
  }
  for (const name of ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]) vi.stubEnv(name, "");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await hub.close();
  rmSync(cache, { recursive: true, force: true });
});

const repository = () => join(cache, "hub", "models--owner--small");
const failure = (name = "owner/small") => pullModel(name).catch((error: unknown) => error as Error);

describe("a pulled model", () => {
  it("lies in the cache as the hub's other programs lay it out, with what it needs and nothing else", async () => {
    const { path, revision, files: pulled } = await pullModel("owner/small");
    expect([path, revision]).toEqual([join(repository(), "snapshots", COMMIT), COMMIT]);
    expect(pulled.map((file) => file.path).sort()).toEqual(needed);
    expect(hub.fetched.sort()).toEqual(needed);
    for (const file of needed)
      expect(readFileSync(join(path, file))).toEqual(Buffer.from(files[file as never] as string));
    expect(readlinkSync(join(path, "model.safetensors"))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{64}$/);
    expect(readlinkSync(join(path, "additional_chat_templates/tool_use.jinja"))).toMatch(
      /^\.\.\/\.\.\/\.\.\/blobs\/[0-9a-f]{40}$/,
    );
    expect(readFileSync(join(repository(), "refs/main"), "utf8")).toBe(COMMIT);
    expect(cachedModel(parseHubModel("owner/small")!)).toBe(path);
    expect(cachedModel(parseHubModel(`owner/small@${COMMIT}`)!)).toBe(path);
    expect(cachedModel(parseHubModel("owner/small@other")!)).toBeNull();
    for (const address of ["https://huggingface.co/owner/small/", "hf.co/owner/small", "hf://owner/small/tree/main"]) {
      expect(cachedModel(parseHubModel(address)!)).toBe(path);
    }
    expect(parseHubModel("https://example.com/owner/small")).toBeNull();
  });

  it("is not downloaded again, and further files are where they are asked for", async () => {
    await pullModel("owner/small");
    const before = hub.fetched.length;
    const again = await pullModel("owner/small");
    expect(again.files.every(({ downloaded }) => !downloaded)).toBe(true);
    expect(hub.fetched.length).toBe(before);
    await pullModel("owner/small", { include: ["*.md", "onnx/*"] });
    expect(hub.fetched.slice(before).sort()).toEqual(["README.md", "onnx/model.onnx"]);
  });

  it("is what its name stands for at once: no moment shows the name with neither this one nor the one before", async () => {
    await pullModel("owner/small");
    const ref = join(repository(), "refs/main");
    const before = "f".repeat(40);
    writeFileSync(ref, before);
    linkSync(ref, join(cache, "before"));
    await pullModel("owner/small");
    // Another file has taken its place: it was not emptied to be written again.
    expect(readFileSync(join(cache, "before"), "utf8")).toBe(before);
    expect(readFileSync(ref, "utf8")).toBe(COMMIT);
    expect(readdirSync(join(repository(), "refs"))).toEqual(["main"]);
  });

  it("of several parts is those of its index", async () => {
    await hub.close();
    const index = { weight_map: { a: "model-00001-of-00002.safetensors", b: "model-00002-of-00002.safetensors" } };
    hub = await LoopbackHub.open("owner/small", {
      "config.json": "{}",
      "model.safetensors.index.json": JSON.stringify(index),
      "model-00001-of-00002.safetensors": weights,
      "model-00002-of-00002.safetensors": weights.subarray(9),
      "consolidated.safetensors": weights,
    });
    vi.stubEnv("HF_ENDPOINT", hub.endpoint);
    const { files: pulled, path } = await pullModel("owner/small");
    expect(pulled.map((file) => file.path).sort()).toEqual([
      ...["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
      "model.safetensors.index.json",
    ]);
    rmSync(join(path, "model-00002-of-00002.safetensors"));
    expect(cachedModel(parseHubModel("owner/small")!)).toBeNull();
  });

  it("is told of as it comes", async () => {
    const seen: PullProgress[] = [];
    await pullModel("owner/small", { onProgress: (progress) => seen.push(progress) });
    const { done, total } = seen.at(-1)!;
    expect([done, total]).toEqual([
      total,
      needed.reduce((sum, file) => sum + Buffer.from(files[file as never] as string).length, 0),
    ]);
    expect(seen.every((progress, i) => i === 0 || progress.done >= seen[i - 1]!.done)).toBe(true);
  });
});

describe("a network that fails", () => {
  const large = () => hub.requests.filter(({ host }) => host === "cdn").slice(-9);

  it("in the middle of a file: it is gone on with from there", async () => {
    hub.faults.push("ignores ranges", { cutAfter: 100_000 }, { cutAfter: 50_000 }, "busy");
    const { path } = await pullModel("owner/small");
    expect(readFileSync(join(path, "model.safetensors"))).toEqual(weights);
    expect(large().map(({ range }) => range)).toEqual([
      undefined,
      undefined,
      "bytes=100000-",
      "bytes=150000-",
      "bytes=150000-",
    ]);
  });

  it("for good: what has come stays for the next call", async () => {
    hub.faults.push("ignores ranges", { cutAfter: 100_000 }, ...Array<"busy">(5).fill("busy"));
    expect(await failure()).toMatchObject({ code: "hub_unavailable" });
    const partial = readdirSync(join(repository(), "blobs")).find((name) => name.endsWith(".incomplete"))!;
    expect(statSync(join(repository(), "blobs", partial)).size).toBe(100_000);
    expect(cachedModel(parseHubModel("owner/small")!)).toBeNull();
    let resumed = 0;
    const { path } = await pullModel("owner/small", { onProgress: (progress) => (resumed = progress.resumed) });
    expect(resumed).toBe(100_000);
    expect(large().at(-1)!.range).toBe("bytes=100000-");
    expect(readFileSync(join(path, "model.safetensors"))).toEqual(weights);
  });

  it("and one that begins again from the start", async () => {
    hub.faults.push("ignores ranges", { cutAfter: 100_000 }, "ignores ranges");
    const { path } = await pullModel("owner/small");
    expect(readFileSync(join(path, "model.safetensors"))).toEqual(weights);
  });

  it("by damage: the file is refused, and is not gone on with", async () => {
    hub.faults.push("ignores ranges", "damaged");
    const error = await failure();
    expect(error).toMatchObject({ code: "hub_file_damaged", message: expect.stringContaining("model.safetensors") });
    expect(readdirSync(join(repository(), "blobs")).some((name) => name.endsWith(".incomplete"))).toBe(false);
    expect(readFileSync(join((await pullModel("owner/small")).path, "model.safetensors"))).toEqual(weights);
  });

  it("altogether: says which hub cannot be reached", async () => {
    await hub.close();
    expect(await failure()).toMatchObject({ code: "hub_unreachable", message: expect.stringContaining(hub.endpoint) });
  });

  it("is not what a caller's function throws", async () => {
    const isLarge = ({ file, bytes }: PullProgress) => file === "model.safetensors" && bytes > 0;
    const mistaken = (progress: PullProgress) => {
      if (isLarge(progress)) throw new TypeError("mine");
    };
    await expect(pullModel("owner/small", { onProgress: mistaken })).rejects.toThrow(new TypeError("mine"));
    expect(large()).toHaveLength(2);
    const rejecting = async (progress: PullProgress) => mistaken(progress);
    await expect(pullModel("owner/small", { onProgress: rejecting })).rejects.toThrow(new TypeError("mine"));
  });

  it.skipIf(process.platform === "win32")("is not a disk that is full", async () => {
    const module = JSON.stringify(new URL("pullModel.ts", import.meta.url).href);
    const script = `(await import(${module})).pullModel("owner/small").catch(({ code }) => console.log(code));`;
    const command = 'ulimit -f 100; exec "$0" --import tsx --input-type=module -e "$1"';
    const { stdout } = await promisify(execFile)("bash", ["-c", command, process.execPath, script]);
    expect(stdout.trim()).toBe("disk_full");
  });

  it("may have left a part that several go on with at once", async () => {
    const blobs = join(repository(), "blobs");
    mkdirSync(blobs, { recursive: true });
    const partial = `${createHash("sha256").update(weights).digest("hex")}.incomplete`;
    writeFileSync(join(blobs, partial), weights.subarray(0, 100_000));
    const pulled = await Promise.all([1, 2, 3].map(() => pullModel("owner/small")));
    expect(large().some(({ range }) => range === "bytes=100000-")).toBe(true);
    for (const { path } of pulled) expect(readFileSync(join(path, "model.safetensors"))).toEqual(weights);
    expect(readdirSync(blobs).filter((name) => name.endsWith(".incomplete"))).toEqual([]);
  });

  it("is not waited for after an abort", async () => {
    hub.faults.push("ignores ranges", { cutAfter: 10 }, ...Array<"busy">(5).fill("busy"));
    const controller = new AbortController();
    const pulling = pullModel("owner/small", { signal: controller.signal });
    setTimeout(() => controller.abort(new Error("enough")), 300);
    await expect(pulling).rejects.toThrow("enough");
  });
});

describe("access", () => {
  it("needs the token where the hub asks for one, and shows it to the hub alone", async () => {
    hub.token = "hf_secret";
    expect(await failure()).toMatchObject({ code: "hub_access_denied", hint: expect.stringContaining("HF_TOKEN") });
    vi.stubEnv("HF_TOKEN", "hf_secret");
    await pullModel("owner/small");
    const large = hub.requests.filter(({ host }) => host === "cdn");
    expect(large.length).toBeGreaterThan(0);
    expect(large.every(({ authorization }) => authorization === undefined)).toBe(true);
  });

  it("a model, or a revision, that is not there is named", async () => {
    expect(await failure("owner/none")).toMatchObject({ code: "hub_not_found", status: 404 });
    expect(await failure("owner/small@v2")).toMatchObject({ message: expect.stringContaining("v2") });
    for (const name of ["small", "owner/small/x", "owner/..", "../small", "owner/small@../x", "owner/small@"]) {
      expect(await failure(name)).toMatchObject({ code: "invalid_request", param: "name" });
    }
  });

  it("offline finds what is there, and asks nobody", async () => {
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect(await failure()).toMatchObject({ code: "hub_offline" });
    vi.stubEnv("HF_HUB_OFFLINE", "");
    const { path } = await pullModel("owner/small");
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    const before = hub.requests.length;
    expect((await pullModel("owner/small")).path).toBe(path);
    expect(hub.requests.length).toBe(before);
  });

  it("a model without safetensors is refused before anything is downloaded", async () => {
    await hub.close();
    hub = await LoopbackHub.open("owner/small", { "config.json": "{}", "small-Q4.gguf": weights });
    vi.stubEnv("HF_ENDPOINT", hub.endpoint);
    expect(await failure()).toMatchObject({ code: "hub_no_safetensors", message: expect.stringContaining("GGUF") });
    expect(hub.fetched).toEqual([]);
  });

  it("a model in ONNX is taken where its graph is asked for", async () => {
    await hub.close();
    hub = await LoopbackHub.open("owner/small", { "config.json": "{}", "onnx/model.onnx": weights });
    vi.stubEnv("HF_ENDPOINT", hub.endpoint);
    expect(await failure()).toMatchObject({ hint: expect.stringContaining('--include "onnx/*"') });
    const { path } = await pullModel("owner/small", { include: ["onnx/*"] });
    expect(cachedModel(parseHubModel("owner/small")!)).toBe(path);
  });

  it("HF_HUB_CACHE names the cache", async () => {
    vi.stubEnv("HF_HUB_CACHE", join(cache, "elsewhere"));
    expect((await pullModel("owner/small")).path).toBe(join(cache, "elsewhere/models--owner--small/snapshots", COMMIT));
  });
});
