import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { UnavailableError } from "../errors.js";
import { packageFolder } from "../packageFiles.js";
import { defineCommand } from "./command.js";
import { integer } from "./flags.js";

export const build = defineCommand({
  name: "build",
  summary: "compile the core on this machine, where no prebuilt one fits",
  details: `Compiles the core from the sources in the package, in two to four minutes on two processors, and puts it into the package's
folder, where it is used instead of a prebuilt one. Needs g++ 12 or clang 15 or later; CXX names another compiler.`,
  flags: {
    jobs: integer("N", "compilers at once (default: one for each processor)"),
  },
  async run({ jobs }) {
    const compiler = fileURLToPath(new URL("native/compile.mjs", packageFolder()));
    if (!existsSync(compiler)) {
      throw new UnavailableError("the sources of the core are not here", {
        code: "sources_missing",
        hint: "run this in an installation of the package, by `npx anneal build`",
      });
    }
    const args = jobs === undefined ? [] : ["--jobs", String(jobs)];
    const [status] = await once(spawn(process.execPath, [compiler, ...args], { stdio: "inherit" }), "exit");
    return status ?? 1;
  },
});
