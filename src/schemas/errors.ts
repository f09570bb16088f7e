import * as z from "zod";
import { field, named } from "./fields.js";

export const issue = named(
  "ValidationIssue",
  z.object({
    loc: field(z.array(z.string()), 'Where: "body", "query" or "path", then field names and positions in lists.'),
    msg: field(z.string(), "What is wrong there."),
    type: field(z.string(), "Which rule is broken, as Pydantic names them."),
  }),
  "One thing that is wrong with a request.",
);

/** What clients of the chat interface read. */
export const errorObject = named(
  "ErrorObject",
  z.object({
    message: field(z.string(), "What went wrong, and where there is something to do about it, what."),
    type: field(z.string(), '"invalid_request_error", "rate_limit_error" or "server_error".'),
    param: field(z.string().nullable(), "The field at fault."),
    code: field(z.string().nullable(), "A stable name of the failure."),
  }),
  "A failure.",
);

export const validationBody = named(
  "ValidationErrorBody",
  z.object({
    detail: field(z.array(issue), "Everything that is wrong, 16 entries at most."),
    error: field(errorObject.optional(), "The same in one line; not under `/v1/preview`."),
  }),
  "A request that is not as it should be.",
);
export const errorBody = named(
  "ErrorBody",
  z.object({ error: errorObject }),
  "A failure outside of `/v1/preview` and `/v1/messages`.",
);
export const detailBody = named(
  "DetailBody",
  z.object({ detail: field(z.string(), "What went wrong.") }),
  "A failure under `/v1/preview`; the headers `x-error-code`, `x-error-param` and `x-error-hint` carry its code, the field at fault and what to do.",
);

export const messageErrorBody = named(
  "MessageErrorBody",
  z.object({
    type: field(z.literal("error"), "What this is."),
    error: field(
      z.object({
        type: field(
          z.string(),
          '"invalid_request_error", "not_found_error", "overloaded_error" and so on, as Anthropic names them.',
        ),
        message: field(z.string(), "What went wrong, and where there is something to do about it, what."),
      }),
      "The failure.",
    ),
    detail: field(
      z.array(issue).optional(),
      "Everything that is wrong with a request that is not as it should be, 16 entries at most.",
    ),
  }),
  "A failure under `/v1/messages`, as Anthropic's clients read it.",
);
