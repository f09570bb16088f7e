import type { HomeProblem } from "../types/home.js";
import { defaultHome } from "../userFolder.js";
import { type CommandGroup, defineCommand } from "./command.js";
import { homeFlags } from "./engineFlags.js";
import { json } from "./listing.js";

const flags = { home: homeFlags.home };

function printProblems(problems: readonly HomeProblem[]): void {
  for (const { kind, path, reason } of problems) console.log([kind, path, reason].join("\t"));
}

const check = defineCommand({
  name: "home check",
  summary: "compare a home's files with its database",
  details: `Verifies the database, and the files and checksums of everything in it; lists what is missing, damaged or unknown,
and what has been set aside. Changes nothing. Works beside a running server. Exit status 1 when something is missing or damaged.`,
  flags: { json, ...flags },
  async run(values) {
    const { checkHome } = await import("../index.js");
    const report = await checkHome(values.home ?? defaultHome());
    if (values.json) {
      console.log(JSON.stringify(report, null, 2));
    } else {
      printProblems(report.problems);
      for (const path of report.quarantined) console.log(["quarantined", path].join("\t"));
      const { models, checkpoints, artifacts, jobs, problems } = report;
      const found = `${models} models, ${checkpoints} checkpoints, ${artifacts} artifacts, ${jobs} unfinished jobs`;
      console.log(`${found}: ${problems.length === 0 ? "all as it should be" : `${problems.length} problems`}`);
    }
    return report.problems.every(({ kind }) => kind === "unknown") ? 0 : 1;
  },
});

const backup = defineCommand({
  name: "home backup",
  arguments: ["DIR"],
  summary: "copy a home, also while it is served",
  details: `Copies everything durable to DIR, a new folder, which can be served as a home itself. Works beside a running server.
Exit status 1 when something could not be copied whole.`,
  flags: { json, ...flags },
  async run(values, [folder]) {
    const { backupHome } = await import("../index.js");
    const made = await backupHome(values.home ?? defaultHome(), folder!);
    if (values.json) {
      console.log(JSON.stringify(made, null, 2));
    } else {
      printProblems(made.problems);
      const { checkpoints, artifacts, jobs } = made;
      console.log(`${made.folder}: ${checkpoints} checkpoints, ${artifacts} artifacts, ${jobs} unfinished jobs`);
    }
    return made.problems.length === 0 ? 0 : 1;
  },
});

const accept = defineCommand({
  name: "home accept",
  arguments: ["MODEL"],
  summary: "take a base model's weights as they are at the next start",
  details: `Forgets what the weights of a base model were, so that those of the next start are what later ones are compared with
(see --verify). The home must not be open elsewhere.`,
  flags,
  async run(values, [model]) {
    const { acceptWeights } = await import("../index.js");
    await acceptWeights(values.home ?? defaultHome(), model!);
    return 0;
  },
});

export const home: CommandGroup = {
  name: "home",
  summary: "check and back up what is kept",
  commands: [check, backup, accept],
};
