// The root package and this machine's, as they would be published, with the core that was compiled here.

import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { packAll } from "../../native/pack.mjs";

const TARGET = `${process.platform}-${process.arch}`;
const REPOSITORY = "https://forge.example/owner/anneal";

let folder: string;
let tarballs: string[];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "anneal-pack-"));
  vi.stubEnv("GITHUB_SERVER_URL", "https://forge.example");
  vi.stubEnv("GITHUB_REPOSITORY", "owner/anneal");
  const core = join(folder, "core.node");
  copyFileSync(join(import.meta.dirname, "../../native/build/Release/anneal.node"), core);
  // As packages' cores are; names of functions stay in what is compiled for oneself, for profilers.
  execFileSync("strip", [process.platform === "darwin" ? "-x" : "-s", core]);
  tarballs = await packAll({ targets: [TARGET], cores: { [TARGET]: core }, folder });
}, 600_000);
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

const file = (path: string) => readFileSync(join(folder, "anneal", path), "utf8");

it("is less than 12 MB for one platform", () => {
  const megabytes = tarballs.map((tarball) => statSync(tarball).size / 1e6);
  console.log(`packed: ${megabytes.map((size) => size.toFixed(1)).join(" + ")} MB`);
  expect(megabytes[0]! + megabytes[1]!).toBeLessThan(12);
});

it("has no script, and says where it comes from", () => {
  const manifests = ["anneal", `anneal-${TARGET}`].map((name) =>
    JSON.parse(readFileSync(join(folder, name, "package.json"), "utf8")),
  );
  for (const manifest of manifests) {
    expect(manifest.scripts).toBeUndefined();
    expect(manifest.repository.url).toBe(`git+${REPOSITORY}.git`);
    expect(manifest.homepage).toBe(`${REPOSITORY}#readme`);
  }
  expect(manifests[0].optionalDependencies).toEqual({ [`@anneal/${TARGET}`]: manifests[1].version });
});

it("carries the guides and both references, and leads its README's links to the repository", () => {
  const links = [...file("README.md").matchAll(/\]\(([^)]+)\)/g)].map(([, target]) => target!);
  expect(links.length).toBeGreaterThan(10);
  const prefix = `${REPOSITORY}/blob/v${JSON.parse(file("package.json")).version}/`;
  for (const target of links) expect(target).toMatch(/^https:/);
  expect(file("README.md")).toContain(`](${prefix.replace("/blob/", "/raw/")}benchmarks/results/bench.svg)`);
  const guides = links
    .filter((target) => target.startsWith(`${prefix}src/`))
    .map((target) => target.slice(prefix.length));
  expect(guides.length).toBeGreaterThan(5);
  for (const guide of guides) expect(existsSync(join(folder, "anneal", guide.split("#")[0]!)), guide).toBe(true);
  expect(file("src/types/README.md")).toContain("### EngineOptions");
  expect(file("src/schemas/README.md")).toContain("### POST /v1/chat/completions");
  expect(JSON.parse(file("dist/openapi.json")).paths["/v1/chat/completions"].post).toBeTypeOf("object");
});

it("carries what compiles the core, and no test", () => {
  const paths = execFileSync("tar", ["-tzf", tarballs[0]!], { encoding: "utf8" }).split("\n");
  expect(paths).toContain("package/native/compile.mjs");
  expect(paths).toContain("package/models/tiny/model.safetensors");
  expect(paths.filter((path) => /\.test\.|_test\.cpp$|native\/build/.test(path))).toEqual([]);
  expect(readdirSync(join(folder, `anneal-${TARGET}`)).sort()).toEqual([
    "LICENSE",
    "README.md",
    "anneal.node",
    "package.json",
  ]);
});
