// What is written to a terminal: styles, and what a model, a number or an error says there.

import util from "node:util";
import { AnnealError, HomeLockedError, ValidationError } from "../errors.js";

type Style = Parameters<typeof util.styleText>[0];

/** Whether a stream shows colours. FORCE_COLOR wins over NO_COLOR, as in Node; an empty NO_COLOR says nothing. */
export function hasColor(
  stream: Pick<NodeJS.WriteStream, "isTTY" | "hasColors">,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): boolean {
  const { FORCE_COLOR, NO_COLOR } = environment;
  if (FORCE_COLOR !== undefined) return !["0", "false"].includes(FORCE_COLOR);
  return !NO_COLOR && Boolean(stream.isTTY) && stream.hasColors({ ...environment, NO_COLOR: undefined });
}

/** Styles text for a stream. */
const styled =
  (style: Style) =>
  (text: string, stream: NodeJS.WriteStream = process.stdout): string =>
    hasColor(stream) ? util.styleText(style, text, { validateStream: false }) : text;

export const bold = styled("bold");
export const dim = styled("dim");
export const red = styled("red");
export const green = styled("green");
export const cyan = styled("cyan");

/** What a model wrote must not steer the terminal: control characters but line ends are replaced. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => (character === "\n" ? "\n" : character === "\t" ? "  " : "\ufffd"));
}

/** Four digits of a number that is not whole. */
export function shortNumber(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toPrecision(4);
}

/** What an error says on a command line: without where in a body it came from, and with what can be done about it. */
export function problem(error: unknown): string {
  if (!(error instanceof AnnealError)) return error instanceof Error ? error.message : String(error);
  const hint = commandHint(error);
  return `${statement(error)}${hint ? `\n  ${hint}` : ""}`;
}

/** By the code of an error. */
const COMMAND_HINTS: Readonly<Record<string, string>> = {
  model_not_found: "anneal models list names what there is",
  base_model_missing: "name that model with --model",
  model_exists: "choose another name; anneal models list names what there is",
  invalid_api_key: "name the key that the server was started with: --api-key",
};

/** What to do, in commands and their options where the library names its own. */
function commandHint(error: AnnealError): string | null {
  if (error instanceof HomeLockedError && error.address !== null) {
    return `anneal chat --url ${error.address} talks to it; otherwise end that process, or name another home`;
  }
  return (
    COMMAND_HINTS[error.code] ??
    error.hint?.replace("memoryLimit", "--memory-limit").replace("gpuLayers", "--gpu-layers") ??
    null
  );
}

/** Whether a field came from a body, a path or an option says nothing here. */
function statement(error: AnnealError): string {
  if (!(error instanceof ValidationError)) return error.message;
  return error.issues.map(({ loc, msg }) => [loc.slice(loc.length > 1 ? 1 : 0).join("."), msg].join(": ")).join("; ");
}
