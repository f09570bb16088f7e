import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { COMMIT, LoopbackHub } from "../fixtures/hub.js";
import { finish, killAll, start } from "./command.js";

const tiny = new URL("../../models/tiny/", import.meta.url);
let cache: string;
let hub: LoopbackHub;
beforeAll(async () => {
  cache = mkdtempSync(join(tmpdir(), "pull-"));
  const files = readdirSync(tiny).map((name): [string, Buffer] => [name, readFileSync(new URL(name, tiny))]);
  hub = await LoopbackHub.open("owner/tiny", Object.fromEntries(files));
});
afterAll(async () => {
  killAll();
  await hub.close();
  rmSync(cache, { recursive: true, force: true });
});

const anneal = (...args: string[]) =>
  finish(
    start(args, { HF_HOME: cache, HF_HUB_CACHE: "", HF_ENDPOINT: hub.endpoint, HF_HUB_OFFLINE: "", HF_TOKEN: "" }),
  );

it("anneal pull, and the commands that then know the model by its name", async () => {
  const missing = await anneal("models", "list", "--model", "owner/tiny");
  expect([missing.code, missing.err]).toEqual([1, expect.stringContaining("anneal pull owner/tiny")]);
  const { code, out, err } = await anneal("pull", "owner/tiny");
  expect([code, out.trim()]).toEqual([0, join(cache, "hub/models--owner--tiny/snapshots", COMMIT)]);
  expect(err).toMatch(/^config\.json: 0\.0 MB$/m);
  expect(err).toMatch(/^model\.safetensors: \d\.\d MB$/m);
  expect(err).toMatch(/^owner\/tiny: \d\.\d MB downloaded and checked$/m);
  expect(JSON.parse((await anneal("pull", "owner/tiny", "--json")).out)).toMatchObject({ revision: COMMIT });
  const requests = hub.requests.length;
  const listed = await anneal("models", "list", "--model", "owner/tiny", "--json");
  expect(JSON.parse(listed.out)[0].id).toBe("owner/tiny");
  expect(hub.requests.length).toBe(requests);
}, 60_000);
