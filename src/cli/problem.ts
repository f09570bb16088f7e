import { AnnealError, ValidationError } from "../errors.js";

/** What an error says on a command line: without where in a body it came from, and with what can be done about it. */
export function problem(error: unknown): string {
  if (!(error instanceof AnnealError)) return error instanceof Error ? error.message : String(error);
  return `${statement(error)}${error.hint ? `\n  ${error.hint}` : ""}`;
}

/** Whether a field came from a body, a path or an option says nothing here. */
function statement(error: AnnealError): string {
  if (!(error instanceof ValidationError)) return error.message;
  return error.issues.map(({ loc, msg }) => [loc.slice(loc.length > 1 ? 1 : 0).join("."), msg].join(": ")).join("; ");
}
