import { AnnealError, InternalServerError, ValidationError } from "../errors.js";
import { asDiskFullError } from "../fileErrors.js";

/** How a family of paths words its errors: `/v1/preview/...` as `detail`, the others as an `error` object, `/v1/messages` as Anthropic does. */
export type ErrorStyle = "detail" | "error" | "message";

export interface ErrorObject {
  message: string;
  type: string;
  param: string | null;
  code: string | null;
}

export function styleOf(path: string): ErrorStyle {
  if (path.startsWith("/v1/preview/")) return "detail";
  return /^\/v1\/messages(\/|$)/.test(path) ? "message" : "error";
}

/** In characters: a header has its limits, and a longer one tells nobody more. */
const MAX_HEADER_CHARACTERS = 500;

/** What a client may see of any error: those that are not ours say nothing about the inside. */
export function publicError(error: unknown): AnnealError {
  const named = asDiskFullError(error);
  if (named instanceof AnnealError) return named;
  return new InternalServerError("Internal server error", { cause: error });
}

function errorType(status: number): string {
  if (status >= 500) return "server_error";
  return status === 429 ? "rate_limit_error" : "invalid_request_error";
}

export function errorObject(error: unknown): ErrorObject {
  const { message, status, param, code, hint } = publicError(error);
  return { message: hint ? `${message} (${hint})` : message, type: errorType(status), param, code };
}

const MESSAGE_ERROR_TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
};

/** As Anthropic's clients read it. */
export function messageErrorBody(error: unknown): { type: "error"; error: { type: string; message: string } } {
  const { status } = publicError(error);
  const type = MESSAGE_ERROR_TYPES[status] ?? (status >= 500 ? "api_error" : "invalid_request_error");
  return { type: "error", error: { type, message: errorObject(error).message } };
}

export function errorBody(error: unknown, style: ErrorStyle): object {
  if (style === "message") {
    return { ...messageErrorBody(error), ...(error instanceof ValidationError ? { detail: error.issues } : {}) };
  }
  if (error instanceof ValidationError) {
    const detail = error.issues;
    return style === "detail" ? { detail } : { detail, error: errorObject(error) };
  }
  return style === "detail" ? { detail: errorObject(error).message } : { error: errorObject(error) };
}

/**
 * Bodies of the `detail` style have no place for an error's code and parameter, which another engine's client asks for, and none
 * has one for its hint alone: the headers `x-error-code`, `x-error-param` and `x-error-hint` (both percent-encoded) carry them.
 */
export function errorResponse(error: unknown, style: ErrorStyle): Response {
  const { status, code, param, hint } = publicError(error);
  const headers: Record<string, string> = { "x-error-code": code };
  for (const [name, text] of Object.entries({ param, hint })) {
    if (text == null || text.length > MAX_HEADER_CHARACTERS) continue;
    headers[`x-error-${name}`] = encodeURIComponent(text.toWellFormed());
  }
  if (status === 401) headers["www-authenticate"] = "Bearer";
  if (status === 429) headers["retry-after"] = "1";
  return Response.json(errorBody(error, style), { status, headers });
}
