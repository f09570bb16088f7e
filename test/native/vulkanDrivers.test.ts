// What is said and done where Vulkan's loader, a driver, or what a driver should have is missing. Needs what building the core needed: a
// C++20 compiler. (Under Linux, whose loader libraries are found by LD_LIBRARY_PATH.)

import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import type { Device } from "../../src/index.js";
import { listGpus } from "../../src/runtime/runtime.js";

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "anneal-drivers-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** The devices that another process finds, what an engine there computes on by itself, and that on "vulkan:0". */
const PROGRAM = `import { Engine, listDevices } from ${JSON.stringify(join(root, "dist/index.js"))};
const deviceOf = async (device) => {
  const engine = await Engine.open({ home: null, device }).catch(({ code, message }) => ({ code, message, close() {} }));
  await engine.close();
  return engine.code ? engine.code + ": " + engine.message : "opened";
};
console.log(JSON.stringify({ devices: await listDevices(), auto: await deviceOf("auto"), gpu: await deviceOf("vulkan:0") }));`;

/** What models are computed on in another process, opened by each of such options, and say; or why they are not. */
const CHAT = `import { Engine } from ${JSON.stringify(join(root, "dist/index.js"))};
const said = [];
for (const options of JSON.parse(process.argv[1])) {
  let computes = "";
  const loaded = (message, fields) => { if (message === "model loaded") computes = fields.device; };
  const logger = { debug() {}, info: loaded, warn() {}, error() {} };
  try {
    const engine = await Engine.open({ home: null, logger, ...options });
    const asked = { messages: [{ role: "user", content: "Hi" }], max_tokens: 8, temperature: 0, logprobs: true };
    said.push(computes + ": " + JSON.stringify((await engine.chat.completions.create(asked)).choices));
    await engine.close();
  } catch ({ code, message, hint }) {
    said.push(code + ": " + message + "; " + hint);
  }
}
console.log(JSON.stringify(said));`;

function found(environment: Record<string, string>): { devices: Device[]; auto: string; gpu: string } {
  const { stdout, stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", PROGRAM], {
    encoding: "utf8",
    env: { ...process.env, ...environment },
  });
  expect({ stderr, status }).toEqual({ stderr: "", status: 0 });
  return JSON.parse(stdout);
}

const onlyCpu = (environment: Record<string, string>) => {
  const { devices, auto, gpu } = found(environment);
  expect(devices.map(({ id }) => id)).toEqual(["cpu"]);
  expect(auto).toBe("opened");
  expect(gpu).toMatch(/^unusable_device: vulkan:0 is not there/);
};

describe("drivers that are not what they should be", () => {
  it.each([
    ["which ends in its middle", '{"ICD": {"libr'],
    ["which is no object", "[]"],
    ["of a library that is not there", icd(join(folder, "nothing.so"))],
    ["of a library that is none", icd(join(folder, "zeros.so"))],
    ["of a library that is no driver", icd("libc.so.6")],
  ])("are passed over in silence: a manifest %s", (_, manifest) => {
    writeFileSync(join(folder, "zeros.so"), Buffer.alloc(4096));
    const file = join(folder, "driver.json");
    writeFileSync(file, manifest);
    onlyCpu({ VK_DRIVER_FILES: file, VK_ICD_FILENAMES: file });
  });
});

function icd(library: string): string {
  return JSON.stringify({ file_format_version: "1.0.0", ICD: { library_path: library, api_version: "1.3.0" } });
}

const compiler = (process.env.CXX ?? "c++").split(" ");
/** A folder with a library in the loader's place. */
function loader(name: string, source: string): string {
  const place = join(folder, name);
  mkdirSync(place);
  const out = join(place, "libvulkan.so.1");
  execFileSync(compiler[0]!, [...compiler.slice(1), "-std=c++20", "-shared", "-fPIC", "-w", "-o", out, source, "-ldl"]);
  cpSync(out, join(place, "libvulkan.so"));
  return place;
}

describe.skipIf(process.platform !== "linux")("a loader", () => {
  it("that is not there, or is none, is passed over in silence", () => {
    const empty = join(folder, "empty");
    mkdirSync(empty);
    for (const name of ["libvulkan.so.1", "libvulkan.so"]) writeFileSync(join(empty, name), "");
    onlyCpu({ LD_LIBRARY_PATH: empty });
    const source = join(folder, "nothing.cpp");
    writeFileSync(source, "");
    onlyCpu({ LD_LIBRARY_PATH: loader("none", source) });
  });
});

const gpus = process.platform === "linux" ? await listGpus() : [];
/** The loader that this process has opened to list them. */
const real = gpus.length === 0 ? undefined : /\S*libvulkan\.so\S*/.exec(readFileSync("/proc/self/maps", "utf8"))?.[0];

describe.skipIf(gpus[0]?.problem !== "" || real === undefined)("a driver", () => {
  it("without what models need is refused by the names of that", { timeout: 240_000 }, () => {
    const LD_LIBRARY_PATH = loader("lacking", join(import.meta.dirname, "lackingLoader.cpp"));
    for (const [lacks, says] of [
      ["addresses", "buffer device addresses"],
      ["16 bits, queue", "storage of 16-bit numbers and a queue for compute"],
      ["shared memory", "32 KiB of shared memory"],
      ["invocations", "workgroups of 256 invocations"],
    ] as const) {
      const { devices, auto, gpu } = found({ LD_LIBRARY_PATH, REAL_VULKAN: real!, LACKS: lacks });
      expect(devices[1]).toMatchObject({ id: "vulkan:0", gpu: { problem: expect.stringMatching(` lacks ${says}$`) } });
      expect(auto).toBe("opened");
      expect(gpu).toMatch(`unusable_device: ${devices[1]!.gpu!.problem}`);
    }
  });

  it("is given buffers of those types of memory that they may have", { timeout: 240_000 }, () => {
    const LD_LIBRARY_PATH = loader("foreign", join(import.meta.dirname, "lackingLoader.cpp"));
    expect(found({ LD_LIBRARY_PATH, REAL_VULKAN: real!, FOREIGN: "1" }).gpu).toBe("opened");
  });

  it("with little memory says how much is missing, and has the layers that it has room for", {
    timeout: 240_000,
  }, () => {
    const environment = {
      LD_LIBRARY_PATH: loader("small", join(import.meta.dirname, "lackingLoader.cpp")),
      REAL_VULKAN: real!,
    };
    const said = (more: Record<string, string>, ...options: object[]): string[] => {
      const { stdout, stderr } = spawnSync(
        process.execPath,
        ["--input-type=module", "-e", CHAT, JSON.stringify(options)],
        {
          encoding: "utf8",
          env: { ...process.env, ...environment, DISCRETE: "1", ...more },
        },
      );
      expect(stderr).toBe("");
      return JSON.parse(stdout);
    };
    const device = "vulkan:0";
    const [own, taken, itself] = said({}, { device: "cpu" }, { device: "gpu" }, { device: "auto" });
    expect(own).toMatch(/^cpu: /);
    expect(taken).toBe(own!.replace("cpu", device));
    expect(itself).toBe(gpus[0]!.fused ? taken : own);
    // Enough for one of the embedded model's layers.
    const [whole, split, auto, gpu] = said(
      { HEAP: "10200000" },
      { device },
      { device, gpuLayers: 1 },
      { device: "auto" },
      { device: "gpu" },
    );
    const missing =
      /^insufficient_memory: .* MiB of memory needed, 7.30 MiB available, [\d.]+ KiB missing; lower contextLength$/;
    expect(whole).toMatch(missing);
    expect(split).toBe(taken);
    expect(auto).toBe(own);
    expect(gpu).toMatch(missing);
    const [little] = said({ HEAP: "4000000" }, { device });
    expect(little).toMatch(/MiB missing; .* leave a GPU's first layers to the cpu with gpuLayers$/);
  });

  // Validation does not see what shaders reach by addresses, and a device in software does all in order.
  it.skipIf(!gpus[0]?.exact)("may do all that stands between two barriers in any order", { timeout: 1_200_000 }, () => {
    const LD_LIBRARY_PATH = loader("backwards", join(import.meta.dirname, "backwardsLoader.cpp"));
    const all = process.env.ANNEAL_TEST_VULKAN === "all";
    const tests = all
      ? "in (bfloat16|float32), its cache|for (qwen3|smollm3_odd)"
      : "smollm3_odd in bfloat16, its cache exact";
    const args = ["vitest", "run", "--config", ".vitest.config.ts", "test/native/vulkan.test.ts", "-t", tests];
    const { stdout, stderr, status } = spawnSync("npx", args, {
      cwd: root,
      encoding: "utf8",
      env: { ...process.env, VK_INSTANCE_LAYERS: "", LD_LIBRARY_PATH, REAL_VULKAN: real! },
    });
    expect(stripVTControlCharacters(stdout), stderr).toMatch(/Tests +\d+ passed/);
    expect(status, stderr).toBe(0);
  });
});
