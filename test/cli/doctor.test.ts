import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { runCommand } from "../../src/cli/command.js";
import { devices } from "../../src/cli/devices.js";
import { doctor } from "../../src/cli/doctor.js";
import { UnavailableError } from "../../src/errors.js";
import { printed } from "./printed.js";

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "doctor-"));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

const examine = async (...args: string[]) => {
  const { code, out } = await printed(() => runCommand(doctor, [...args, "--json"]));
  const findings = JSON.parse(out) as { check: string; ok: boolean; detail: string }[];
  const details = new Map(findings.map(({ check, detail }) => [check, detail]));
  return { code, wrong: findings.filter(({ ok }) => !ok), checks: [...details.keys()], details };
};

it("finds nothing wrong with a sound machine, and makes nothing", async () => {
  const absent = join(home, "absent");
  const { code, wrong, checks } = await examine("--home", absent);
  expect(wrong).toEqual([]);
  expect([code, checks]).toEqual([0, ["node", "core", "home", "memory", "model"]]);
  expect(existsSync(absent)).toBe(false);
});

it("tells of the embedded model by its id", async () => {
  const { code, checks } = await examine("anneal/tiny", "--home", join(home, "absent"));
  expect([code, checks]).toEqual([0, expect.arrayContaining(["what", "template", "model"])]);
});

it("tells of an encoder that it makes vectors", async () => {
  const encoder = join(import.meta.dirname, "../reference/onnx/bert");
  const { code, wrong, details } = await examine(encoder, "--home", join(home, "absent"));
  expect(wrong).toEqual([]);
  expect(code).toBe(0);
  expect(details.get("what")).toContain("makes vectors");
  expect(details.get("model")).toMatch(/bert made a vector of 32 within/);
});

it("says what is wrong with a home that others can enter, and with a model that is not there", async () => {
  chmodSync(home, 0o755);
  const { code, wrong } = await examine("--home", home, "--model", join(home, "nothing"));
  expect(code).toBe(1);
  expect(wrong).toEqual([
    { check: "home", ok: false, detail: `other users can enter ${home}: chmod 700 '${home}'` },
    { check: "model", ok: false, detail: expect.stringContaining("there is no such folder") },
  ]);
});

it("says that the compute core is missing, and nothing of what depends on it", async () => {
  const missing = new UnavailableError("the compute core is not installed", { hint: "build it" });
  vi.doMock("../../src/index.js", () => ({ listDevices: () => Promise.reject(missing) }));
  const { code, wrong, checks } = await examine("--home", join(home, "absent"));
  vi.doUnmock("../../src/index.js");
  expect(wrong).toEqual([{ check: "core", ok: false, detail: "the compute core is not installed\n  build it" }]);
  expect([code, checks]).toEqual([1, ["node", "core", "home"]]);
});

it("lists the processor with what it can do", async () => {
  const { out } = await printed(() => runCommand(devices, ["--json"]));
  const [cpu, ...others] = JSON.parse(out);
  // GPUs, where there are any, and processors in their place.
  for (const [index, other] of others.entries()) expect(other).toMatchObject({ id: `vulkan:${index}`, gpu: {} });
  expect(cpu).toMatchObject({ id: "cpu", instruction_sets: expect.arrayContaining(["portable"]) });
  expect(cpu.threads).toBeLessThanOrEqual(availableParallelism());
  expect(cpu.memory.available).toBeGreaterThan(0);
  expect(cpu.memory.available).toBeLessThanOrEqual(cpu.memory.total);
  const row = (await printed(() => runCommand(devices, []))).out.split("\n")[0]!.split("\t");
  expect(row.slice(0, 2)).toEqual(["cpu", cpu.name]);
});
