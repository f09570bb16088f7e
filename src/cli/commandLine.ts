import { AnnealError } from "../errors.js";
import { asDiskFullError } from "../fileErrors.js";
import { minNode, packageVersion } from "../packageFiles.js";
import { findCommand, groupHelp, isGroup, runCommand, summaries } from "./command.js";
import { commands } from "./commands.js";
import { UsageError } from "./flags.js";
import { nearest } from "./nearest.js";
import { printable, problem, red } from "./terminalText.js";

const usage = `anneal COMMAND [options]

${summaries(commands.map(({ name, summary }) => ({ name, summary })))}

anneal COMMAND --help says more; anneal --version says which one this is. Every option can also be set as an environment
variable: ANNEAL_PORT for --port, ANNEAL_HOME for --home.`;

async function main(args: readonly string[]): Promise<number> {
  if (Number.parseInt(process.versions.node, 10) < minNode()) {
    throw new UsageError(`anneal needs Node ${minNode()} or later; this is ${process.version}`);
  }
  const [name] = args;
  if (name === "help" && args.length > 1) return main([...args.slice(1), "--help"]);
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    console.log(usage);
    return name === undefined ? 2 : 0;
  }
  if (["--version", "-v", "-V", "version"].includes(name)) {
    console.log(packageVersion());
    return 0;
  }
  if (name.startsWith("-")) {
    const meant = nearest(name, ["--help", "--version"]);
    const hint = "options come after the command: anneal serve --port 8000";
    throw new UsageError(`there is no option ${name} here${meant ? `; did you mean ${meant}?` : ""}`, hint);
  }
  const { found, rest } = findCommand(commands, args);
  if (!isGroup(found)) return runCommand(found, rest);
  console.log(groupHelp(found));
  return 0;
}

const WIDTH = 100;

/** Indented lines of at most WIDTH characters, but for longer words. */
function wrapped(text: string): string {
  const lines = [" "];
  for (const word of text.split(" ")) {
    if (lines.at(-1)!.length + word.length >= WIDTH) lines.push(" ");
    lines.push(`${lines.pop()} ${word}`);
  }
  return lines.join("\n");
}

/** Who reads the output may have seen enough (`head`, a pager), and a disk may be full: the work goes on all the same. */
let cannotPrint = false;
for (const output of [process.stdout, process.stderr]) {
  output.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    if (code === "EPIPE" || cannotPrint) return;
    cannotPrint = true;
    process.once("exit", () => {
      process.exitCode ||= 1;
    });
    process.stderr.write(`${red("anneal:", process.stderr)} the output cannot be written: ${message}\n`);
  });
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (cause) {
  const error = asDiskFullError(cause);
  const { message, stack, syscall } = error as NodeJS.ErrnoException;
  const name = red("anneal:", process.stderr);
  process.exitCode = 1;
  if (error instanceof UsageError) {
    process.stderr.write(`${name} ${message}\n${wrapped(error.hint ?? "--help says how it is used")}\n`);
    process.exitCode = 2;
  } else if (error instanceof AnnealError) process.stderr.write(`${name} ${printable(problem(error))}\n`);
  else {
    // What the operating system refuses is no fault of the program: where it was met helps nobody.
    process.stderr.write(`${name} ${syscall === undefined ? (stack ?? message) : message}\n`);
  }
}
