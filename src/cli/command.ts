// What a command is. Help, parsing, suggestions and completions all come from this one description.

import { engineFlags } from "./engineFlags.js";
import { type Flags, firstArgument, readFlags, toggle, UsageError, type Values } from "./flags.js";
import { nearest } from "./nearest.js";

/** Modules of commands load fast: what is heavy (the engine) is imported by `run`. */
export interface Command<F extends Flags = Flags> {
  /** The words that call it, such as "models create". */
  readonly name: string;
  /** What follows them, in order: "FILE", "[FILE]" where it may be left out, "[WORD...]" for any number. */
  readonly arguments?: readonly string[];
  /** One line, for lists of commands. */
  readonly summary: string;
  /** Whole sentences below the usage line, instead of the summary. */
  readonly details?: string;
  readonly flags: F;
  /** @returns the exit status. */
  run(values: Values<F>, args: readonly string[]): Promise<number>;
}

/** Commands that share their first word. */
export interface CommandGroup {
  readonly name: string;
  readonly summary: string;
  /** The first one is meant when no second word is given. */
  readonly commands: readonly Command[];
}

export const defineCommand = <F extends Flags>(command: Command<F>): Command<F> => command;

const help = toggle("say this", "h");

/** Reads the arguments that follow a command's name, and runs it or says how it is used. @throws UsageError */
export async function runCommand(command: Command, args: readonly string[]): Promise<number> {
  const { values, positionals } = readFlags(args, { ...command.flags, help });
  if (values.help) {
    console.log(commandHelp(command));
    return 0;
  }
  checkArguments(command, positionals);
  return command.run(values, positionals);
}

/** @throws UsageError where there are too few or too many. */
export function checkArguments({ name, arguments: wanted = [] }: Command, given: readonly string[]): void {
  const min = wanted.filter((argument) => !argument.startsWith("[")).length;
  const max = wanted.at(-1)?.endsWith("...]") ? Number.POSITIVE_INFINITY : wanted.length;
  if (given.length >= min && given.length <= max) return;
  if (max === 0) throw new UsageError(`what is "${given[0]}"? this command takes only options`);
  throw new UsageError(`${name} takes ${wanted.join(" and ")}`);
}

export function commandHelp(command: Command): string {
  const own = Object.entries(command.flags).filter(([name]) => !isEngineFlag(command, name));
  const shared = Object.entries(command.flags).filter(([name]) => isEngineFlag(command, name));
  const usage = ["anneal", command.name, ...(command.arguments ?? []), "[options]"].join(" ");
  const options = flagLines({ ...Object.fromEntries(own), help });
  const engine = shared.length > 0 ? ["", "Of the engine:", ...flagLines(Object.fromEntries(shared))] : [];
  return [usage, "", command.details ?? `${capital(command.summary)}.`, "", ...options, ...engine].join("\n");
}

/** Of the long list that all commands share; a command may say of itself what one means to it. */
const isEngineFlag = ({ flags }: Command, name: string): boolean =>
  name !== "home" && name in engineFlags && flags[name] === engineFlags[name as keyof typeof engineFlags];

const capital = (sentence: string): string => sentence.charAt(0).toUpperCase() + sentence.slice(1);

function flagLines(flags: Flags): string[] {
  return Object.entries(flags).map(([name, { value, help, short }]) => {
    const spelled = [short && `-${short},`, `--${name}`, value].filter(Boolean).join(" ");
    return `  ${spelled.padEnd(22)}${spelled.length > 22 ? "  " : " "}${help}`;
  });
}

/** Two columns: names of commands, and what they do. */
export function summaries(
  entries: readonly { name: string; arguments?: readonly string[]; summary: string }[],
): string {
  const names = entries.map(({ name, arguments: wanted = [] }) => [name, ...wanted].join(" "));
  const width = Math.max(...names.map((name) => name.length));
  return entries.map(({ summary }, i) => `  ${names[i]!.padEnd(width)}  ${summary}`).join("\n");
}

export function groupHelp({ name, summary, commands }: CommandGroup): string {
  return `anneal ${name} COMMAND [options]

${capital(summary)}.

${summaries(commands.map((command) => ({ ...command, name: secondWord(command) })))}

anneal ${name} COMMAND --help says more; without a command: ${secondWord(commands[0]!)}.`;
}

export const secondWord = ({ name }: { name: string }): string => name.split(" ").at(-1)!;

export const isGroup = (entry: Command | CommandGroup): entry is CommandGroup => "commands" in entry;

/**
 * The command that the first words call, and the words that are left. A group where its help is asked for.
 * @throws UsageError naming the nearest one there is.
 */
export function findCommand(
  table: readonly (Command | CommandGroup)[],
  words: readonly string[],
): { found: Command | CommandGroup; rest: readonly string[] } {
  const [first = "", ...rest] = words;
  const found = table.find(({ name }) => name === first);
  if (!found) throw unknown(first, table, "");
  if (!isGroup(found)) return { found, rest };
  if (rest[0] === "--help" || rest[0] === "-h") return { found, rest: rest.slice(1) };
  const at = firstArgument(rest, Object.assign({}, ...found.commands.map(({ flags }) => flags)));
  if (at === null) return { found: found.commands[0]!, rest };
  const second = rest[at]!;
  const command = found.commands.find((one) => secondWord(one) === second);
  if (!command) throw unknown(second, found.commands, `${found.name} `);
  return { found: command, rest: rest.toSpliced(at, 1) };
}

function unknown(word: string, table: readonly { name: string }[], before: string): UsageError {
  const names = table.map(secondWord);
  const meant = nearest(word, names);
  return new UsageError(
    `there is no command "${before}${word}"${meant ? `; did you mean ${before}${meant}?` : ""}`,
    `commands: ${names.join(" ")}`,
  );
}
