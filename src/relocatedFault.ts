// Faults of a request that another one was made into, told of the fields of that other one.

import { ValidationError, type ValidationIssue } from "./errors.js";

/**
 * Of other errors than validation errors the same one. A `loc` is given to `relocate` without its "body"; `tooLongHint` says what helps where
 * a text is too long.
 */
export function relocatedFault(error: unknown, relocate: (path: string[]) => string[], tooLongHint: string): unknown {
  if (!(error instanceof ValidationError)) return error;
  const issues = error.issues.map((issue): ValidationIssue => {
    const [from, ...path] = issue.loc;
    return from === "body" ? { ...issue, loc: [from, ...relocate(path)] } : issue;
  });
  const { code } = error;
  const hint = error.isTooLong ? tooLongHint : error.hint;
  const path = issues[0]?.loc.slice(1).join(".") ?? null;
  const known = error.issues[0]?.loc.slice(1).join(".") ?? null;
  // A parameter that is not the path says more than that.
  const param = error.param === known ? path : error.param;
  return new ValidationError(issues, { code, param, ...(hint === undefined ? {} : { hint }), cause: error });
}
