import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import { command, killAll } from "./command.js";

let top: string;
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), "anneal-cli-home-"));
});
afterEach(() => {
  killAll();
  rmSync(top, { recursive: true, force: true });
});

it("a home is checked and copied beside an engine that has it open", async () => {
  const home = join(top, "home");
  const copy = join(top, "copy");
  const engine = await Engine.open({ home });
  const model = await engine.models.create({ project: "p", name: "n", base_model: "anneal/tiny" });
  const [checked, made] = await Promise.all([
    command(["home", "check", "--home", home]),
    command(["home", "backup", copy, "--home", home]),
  ]);
  expect([checked.code, checked.out]).toEqual([0, expect.stringContaining("1 models, 1 checkpoints")]);
  expect([made.code, made.out]).toEqual([0, expect.stringContaining("1 checkpoints")]);
  const below = join(copy, "anneal.db", "x");
  const [again, nowhere, belowFile, inUse] = await Promise.all([
    command(["home", "backup", copy, "--home", home]),
    command(["home", "backup", "/proc/nowhere", "--home", home]),
    command(["home", "backup", below, "--home", home]),
    command(["home", "accept", "anneal/tiny", "--home", home]),
  ]);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining("is there already")]);
  expect([nowhere, belowFile].map(({ code, err }) => [code, err])).toEqual([
    [1, "anneal: target: /proc/nowhere cannot be made (ENOENT: no such file or directory)\n"],
    [1, `anneal: target: ${below} cannot be made (ENOTDIR: not a directory)\n`],
  ]);
  expect([inUse.code, inUse.err]).toEqual([1, expect.stringContaining("is in use")]);
  await engine.close();

  writeFileSync(join(copy, "checkpoints", model.id, "0", "adapter_model.safetensors"), "damaged");
  const [damaged, accepted, missing] = await Promise.all([
    command(["home", "check", "--json", "--home", copy]),
    command(["home", "accept", "anneal/tiny", "--home", home]),
    command(["home", "check", "--home", join(top, "none")]),
  ]);
  expect(damaged.code).toBe(1);
  expect(JSON.parse(damaged.out).problems).toMatchObject([
    { kind: "damaged", path: `checkpoints/${model.id}/0/adapter_model.safetensors` },
  ]);
  expect(accepted).toEqual({ code: 0, out: "", err: "" });
  expect([missing.code, missing.err]).toEqual([1, expect.stringContaining("there is no home at")]);

  // What a killed process had begun is neither missing nor damaged.
  const begun = join(home, "jobs", "begun");
  mkdirSync(begun, { recursive: true });
  writeFileSync(join(begun, "request.jsonl.1.part"), "{");
  const left = await command(["home", "check", "--home", home]);
  expect([left.code, left.out]).toEqual([
    0,
    expect.stringMatching(/^unknown\tjobs\/begun\t.*the next opening removes it\n/),
  ]);
}, 60_000);
