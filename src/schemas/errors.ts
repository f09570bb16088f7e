import { z } from "zod";

export const issue = z.object({ loc: z.array(z.string()), msg: z.string(), type: z.string() });

/** What clients of the chat interface read. */
export const errorObject = z.object({
  message: z.string(),
  type: z.string(),
  param: z.string().nullable(),
  code: z.string().nullable(),
});

export const validationBody = z.object({ detail: z.array(issue), error: errorObject.optional() });
export const errorBody = z.object({ error: errorObject });
export const detailBody = z.object({ detail: z.string() });
