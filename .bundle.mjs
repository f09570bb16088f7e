// Bundles the sources into dist: one module graph for the library, the command and the programs that threads run.

import { readFileSync } from "node:fs";
import { build } from "esbuild";

const { version, dependencies, peerDependencies } = JSON.parse(readFileSync("package.json", "utf8"));
/** Pure JavaScript that is small, or of which only a part is used, travels inside. */
const BUNDLED = ["zod"];

await build({
  entryPoints: ["src/index.ts", "src/cli/main.ts", "src/text/textWorker.ts"],
  outdir: "dist",
  bundle: true,
  splitting: true,
  // What only a start from the sources needs.
  dropLabels: ["SOURCES"],
  format: "esm",
  platform: "node",
  target: "node20",
  sourcemap: true,
  keepNames: true,
  logLevel: "warning",
  define: { ANNEAL_VERSION: JSON.stringify(version) },
  external: Object.keys({ ...dependencies, ...peerDependencies }).filter((name) => !BUNDLED.includes(name)),
});
