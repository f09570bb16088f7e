import { delimiter } from "node:path";
import { parseArgs } from "node:util";
import { nearest } from "./nearest.js";

/** A command line that cannot be understood: shown with a pointer to help, exit status 2. */
export class UsageError extends Error {
  readonly hint: string | undefined;

  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

/** An option of a command, and how its value is read. */
export interface Flag<T = unknown> {
  /** What help calls its value; null: a switch, which has none. */
  readonly value: string | null;
  readonly help: string;
  readonly short?: string;
  /** May be given several times; otherwise the last one counts. */
  readonly repeatable?: boolean;
  /** The values that there are, where they can be listed. */
  readonly choices?: readonly string[];
  /** Has no environment variable: the one of its name is another flag's, of other commands. */
  readonly isGivenOnly?: boolean;
  /** `name` is what the user called it: `--port` or `ANNEAL_PORT`. @throws UsageError */
  read(texts: readonly string[], name: string): T;
}

export type Flags = Readonly<Record<string, Flag>>;

/** What a command's flags were set to; undefined for those that were not. */
export type Values<F extends Flags> = { [K in keyof F]?: F[K] extends Flag<infer T> ? T : never };

/** A flag of one value, each of which `readOne` reads. */
function single<T>(value: string, help: string, readOne: (text: string, name: string) => T): Flag<T> {
  return { value, help, read: (texts, name) => readOne(texts.at(-1)!, name) };
}

export const text = (value: string, help: string): Flag<string> => single(value, help, (given) => given);

export function toggle(help: string, short?: string): Flag<boolean> {
  return { value: null, help, short, read: (texts) => !["0", "false", "no"].includes(texts.at(-1)!.toLowerCase()) };
}

export function integer(value: string, help: string, { from = 1, to = 1e15 } = {}): Flag<number> {
  return single(value, help, (given, name) => {
    if (/^\d{1,15}$/.test(given) && Number(given) >= from && Number(given) <= to) return Number(given);
    throw new UsageError(
      `${name} takes a whole number ${to < 1e15 ? `from ${from} to ${to}` : `from ${from}`}, not "${given}"`,
    );
  });
}

/** A finite number; `range` says in words which ones `accepts` takes. */
export function number(
  value: string,
  help: string,
  accepts: (given: number) => boolean = () => true,
  range = "",
): Flag<number> {
  return single(value, help, (given, name) => {
    if (given.trim() !== "" && Number.isFinite(Number(given)) && accepts(Number(given))) return Number(given);
    throw new UsageError(`${name} takes a number${range && ` ${range}`}, not "${given}"`);
  });
}

const units: Record<string, number> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** Bytes, at least one, as "800m", "6GiB" or a plain number. */
export function bytes(value: string, help: string): Flag<number> {
  return single(value, help, (given, name) => {
    const match = /^(\d+(?:\.\d+)?)\s*([kmg]?)(i?b)?$/i.exec(given);
    const size = match && Math.floor(Number(match[1]) * units[match[2]!.toLowerCase()]!);
    if (size) return size;
    throw new UsageError(`${name} takes a size such as 800m or 6GiB, not "${given}"`);
  });
}

/** Scheme, host and port. */
const ORIGIN = /^[a-z][a-z\d+.-]*:\/\/[^/?#\s]+$/;

/** Origins of pages as browsers send them, several with commas; "*": all. */
export function origins(value: string, help: string): Flag<string | string[]> {
  return single(value, help, (given, name) => {
    const all = given.split(",").map((origin) => origin.trim().replace(/\/$/, "").toLowerCase());
    if (all.includes("*")) return "*";
    const wrong = all.find((origin) => origin !== "null" && !ORIGIN.test(origin));
    if (wrong === undefined) return all;
    throw new UsageError(`${name} takes origins such as https://app.example, not "${wrong}"`);
  });
}

/** One of `choices`; help lists them before it says `help`. */
export function choice<const T extends string>(value: string, choices: readonly T[], help = ""): Flag<T> {
  const listed = choices.join(", ");
  const read = (given: string, name: string): T => {
    if ((choices as readonly string[]).includes(given)) return given as T;
    throw new UsageError(`${name} is one of ${listed}, not "${given}"`);
  };
  return { ...single(value, help ? `${listed} (${help})` : listed, read), choices };
}

export const givenOnly = <T>(flag: Flag<T>): Flag<T> => ({ ...flag, isGivenOnly: true });

export function repeated(value: string, help: string): Flag<string[]> {
  return { value, help, repeatable: true, read: (texts) => [...texts] };
}

function tokensOf(args: readonly string[], flags: Flags) {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { value, short }]) => {
      return [name, { type: value === null ? ("boolean" as const) : ("string" as const), ...(short && { short }) }];
    }),
  );
  return parseArgs({ args: [...args], options, allowPositionals: true, strict: false, tokens: true }).tokens;
}

/** The place among `args` of the first one that is neither an option nor an option's value. */
export function firstArgument(args: readonly string[], flags: Flags): number | null {
  return tokensOf(args, flags).find((token) => token.kind === "positional")?.index ?? null;
}

/** What an option's environment variable says; undefined where it is not set. @throws UsageError */
export function readEnvironment<T>(
  name: string,
  flag: Flag<T>,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): T | undefined {
  const text = environment[environmentName(name)];
  if (!text || flag.isGivenOnly) return undefined;
  return flag.read(flag.repeatable ? text.split(delimiter) : [text], environmentName(name));
}

export const environmentName = (flag: string): string => `ANNEAL_${flag.toUpperCase().replaceAll("-", "_")}`;

/**
 * Parses a command's arguments; an option that is not given is taken from its environment variable (`--data-root` from
 * ANNEAL_DATA_ROOT; several values are separated as in PATH).
 * @throws UsageError
 */
export function readFlags<F extends Flags>(
  args: readonly string[],
  flags: F,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): { values: Values<F>; positionals: string[] } {
  const texts = new Map<string, string[]>();
  const positionals: string[] = [];
  for (const token of tokensOf(args, flags)) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind === "option") {
      const value = optionText(flags, token);
      texts.set(token.name, [...(texts.get(token.name) ?? []), value]);
    }
  }
  const values: Record<string, unknown> = {};
  for (const [name, flag] of Object.entries(flags)) {
    const given = texts.get(name);
    const value = given ? flag.read(given, `--${name}`) : readEnvironment(name, flag, environment);
    if (value !== undefined) values[name] = value;
  }
  return { values: values as Values<F>, positionals };
}

interface OptionToken {
  name: string;
  /** As it was written, dashes included. */
  rawName: string;
  value?: string;
  inlineValue?: boolean;
}

/** @throws UsageError for an option that there is not, one that lacks its value, and a switch that has one. */
function optionText(flags: Flags, { name, rawName, value, inlineValue }: OptionToken): string {
  const flag = Object.hasOwn(flags, name) ? flags[name] : undefined;
  if (!flag) {
    const meant = nearest(name, Object.keys(flags));
    const options = Object.keys(flags).map((known) => `--${known}`);
    throw new UsageError(
      `there is no option ${rawName}${meant ? `; did you mean --${meant}?` : ""}`,
      `options: ${options.join(" ")}`,
    );
  }
  if (flag.value === null) {
    if (value === undefined) return "true";
    throw new UsageError(`${rawName} takes no value`);
  }
  if (value === undefined) throw new UsageError(`${rawName} takes a value: ${flag.value}`);
  if (!inlineValue && value.startsWith("-") && value !== "-") {
    throw new UsageError(`${rawName} takes a value: ${flag.value}`, `one that begins with a dash: ${rawName}=${value}`);
  }
  return value;
}
