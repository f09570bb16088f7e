import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { readPipelines, writePipelines } from "./pipelineCache.js";

const home = mkdtempSync(join(tmpdir(), "pipelines-"));
afterAll(() => rmSync(home, { recursive: true }));

const data = Uint8Array.from({ length: 5000 }, (_, i) => i * 7);
const file = join(home, "pipelines", "vulkan-0");

describe("what a driver made of shaders", () => {
  beforeEach(() => {
    rmSync(join(home, "pipelines"), { recursive: true, force: true });
    writePipelines(home, "vulkan:0", data);
  });

  it("is kept for its device, and for this user", () => {
    expect(readPipelines(home, "vulkan:0")).toEqual(Buffer.from(data));
    expect(readPipelines(home, "vulkan:1")).toBeNull();
    if (process.platform !== "win32") expect(statSync(file).mode & 0o777).toBe(0o600);
    writePipelines(home, "vulkan:0", data.subarray(9));
    expect(readPipelines(home, "vulkan:0")).toEqual(Buffer.from(data.subarray(9)));
  });

  it("is not there where it is damaged", () => {
    const whole = readFileSync(file);
    const damaged = Buffer.from(whole);
    damaged[1000]! ^= 1;
    for (const content of [damaged, whole.subarray(0, 900), whole.subarray(0, 20), Buffer.alloc(0)]) {
      writeFileSync(file, content);
      expect(readPipelines(home, "vulkan:0")).toBeNull();
    }
  });

  it.skipIf(process.platform === "win32")("is not there where another could have written it", () => {
    chmodSync(file, 0o620);
    expect(readPipelines(home, "vulkan:0")).toBeNull();
    chmodSync(file, 0o600);
    expect(readPipelines(home, "vulkan:0")).not.toBeNull();
    symlinkSync("vulkan-0", join(home, "pipelines", "vulkan-1"));
    expect(readPipelines(home, "vulkan:1")).toBeNull();
  });
});
