// What a server of another engine may make of a request, as errors: it refuses, it cannot be reached, it answers with something else.

import { RemoteServerError } from "./errors.js";

const MAX_REASON = 2000;

/** It answered with a status that is an error; `text` is the answer's body. The message is in the server's own words. */
export function remoteRefused(
  url: string,
  what: string,
  status: number,
  text: string,
  hint?: (reason: string) => string | undefined,
): RemoteServerError {
  const reason = reasonOf(text);
  const advice = hint?.(reason);
  return new RemoteServerError(`${url} would not ${what} (${status}): ${reason}`, {
    code: "remote_refused",
    remoteStatus: status,
    ...(advice ? { hint: advice } : {}),
  });
}

/** What a server says of an error, however it words it. */
export function reasonOf(text: string): string {
  let said = text;
  try {
    const { error, message, detail } = JSON.parse(text) as Record<string, unknown>;
    const inner = (error as { message?: unknown } | undefined)?.message ?? message ?? detail ?? error;
    said = typeof inner === "string" ? inner : JSON.stringify(inner ?? text);
  } catch {
    // Not JSON: as it is.
  }
  return said.trim().slice(0, MAX_REASON) || "nothing more";
}

export function remoteUnreachable(url: string, what: string, cause: unknown): RemoteServerError {
  const { message, cause: inner } = cause as Error & { cause?: Error };
  const why = inner?.message || message;
  return new RemoteServerError(`${url} could not be reached to ${what}: ${why}`, {
    code: "remote_unreachable",
    hint: "see that the server runs and that its address is right; what was trained is kept here",
    cause,
  });
}

export function remoteUnexpected(url: string, what: string, got: string, cause?: unknown): RemoteServerError {
  const message = `${url} was asked to ${what} and gave ${got}`;
  return new RemoteServerError(message, { code: "remote_unexpected", ...(cause === undefined ? {} : { cause }) });
}
