#!/usr/bin/env node
import { AnnealError, ValidationError } from "../errors.js";
import { namedFullDisk } from "../store/fullDisk.js";
import { UsageError } from "./flags.js";
import { printable } from "./printable.js";

interface Command {
  summary: string;
  /** Loaded when it is asked for. @returns the exit status. */
  load(): Promise<(args: readonly string[]) => Promise<number>>;
}

const commands: Record<string, Command> = {
  serve: {
    summary: "serve chat completions and training over HTTP",
    load: async () => (await import("./serve.js")).serve,
  },
  chat: { summary: "talk with a model in the terminal", load: async () => (await import("./chat.js")).chat },
  demo: { summary: "watch a model learn, in about a minute", load: async () => (await import("./demo.js")).demo },
  train: {
    summary: "train a model on conversations, or by a reward",
    load: async () => (await import("./train.js")).train,
  },
  models: { summary: "list, create, import and delete models", load: async () => (await import("./models.js")).models },
  runs: { summary: "show what a model's training did", load: async () => (await import("./runs.js")).runs },
  bench: {
    summary: "measure a model's speed on this machine",
    load: async () => (await import("./bench.js")).bench,
  },
  keys: { summary: "make and revoke API keys", load: async () => (await import("./keys.js")).keys },
};

const usage = `anneal COMMAND [options]

${Object.entries(commands)
  .map(([name, { summary }]) => `  ${name.padEnd(8)} ${summary}`)
  .join("\n")}

anneal COMMAND --help says more; anneal --version says which one this is.`;

/** As in package.json. */
const leastNode = 20;

async function main(args: readonly string[]): Promise<number> {
  if (Number.parseInt(process.versions.node, 10) < leastNode) {
    throw new UsageError(`anneal needs Node ${leastNode} or later; this is ${process.version}`);
  }
  const [name, ...rest] = args;
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    console.log(usage);
    return name === undefined ? 2 : 0;
  }
  if (name === "--version") {
    console.log((await import("../engine/packageVersion.js")).packageVersion());
    return 0;
  }
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) throw new UsageError(`there is no command "${name}"`);
  const run = await command.load();
  return run(rest);
}

/** Whether a field came from a body, a path or an option says nothing on a command line. */
function problem(error: AnnealError): string {
  if (!(error instanceof ValidationError)) return error.message;
  return error.issues.map(({ loc, msg }) => [loc.slice(loc.length > 1 ? 1 : 0).join("."), msg].join(": ")).join("; ");
}

// Whoever reads the output (`head`, a pager) may have seen enough: the work goes on without a reader.
for (const output of [process.stdout, process.stderr]) {
  output.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (cause) {
  const error = namedFullDisk(cause);
  const { code, message, stack } = error as NodeJS.ErrnoException;
  if (error instanceof UsageError || code?.startsWith("ERR_PARSE_ARGS")) {
    process.stderr.write(`anneal: ${message}\nanneal --help lists what there is\n`);
    process.exitCode = 2;
  } else if (error instanceof AnnealError) {
    process.stderr.write(`anneal: ${printable(problem(error))}${error.hint ? `\n  ${error.hint}` : ""}\n`);
    process.exitCode = 1;
  } else {
    process.stderr.write(`anneal: ${stack ?? message}\n`);
    process.exitCode = 1;
  }
}
