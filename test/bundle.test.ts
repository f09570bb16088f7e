import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

type Bundle = (options: { outdir: string }) => Promise<void>;

let outdir: string;
beforeAll(async () => {
  outdir = mkdtempSync(join(tmpdir(), "bundle-"));
  const { bundle } = (await import(new URL("../.bundle.mjs", import.meta.url).href)) as { bundle: Bundle };
  await bundle({ outdir });
  writeFileSync(join(outdir, "package.json"), '{"type":"module"}');
});
afterAll(() => rmSync(outdir, { recursive: true, force: true }));

it("holds what asks the hub, which works without the parts that upload", () => {
  const file = readdirSync(outdir).find((name) => /^hubApi-\w+\.js$/.test(name))!;
  // In a file: what is evaluated has globals that modules have not.
  const program = join(outdir, "ask.js");
  writeFileSync(
    program,
    `import { listFiles, modelInfo } from "./${file}"; console.log(typeof listFiles, typeof modelInfo);`,
  );
  const said = execFileSync(process.execPath, [program], { encoding: "utf8" });
  expect(said.trim()).toBe("function function");
});
