// What several requests are made of.

import * as z from "zod";
import { byDefault, field, named, typed } from "./fields.js";
import { anyValue, list, looseObject, map } from "./limited.js";

/** Null means that the field was left out. */
export const optional = <S extends z.ZodType>(schema: S) => schema.nullish().transform((value) => value ?? undefined);

export const flag = (value: boolean) => byDefault(z.boolean(), value);

export const MAX_MESSAGES = 131_072;
export const MAX_PARTS = 16_384;
export const MAX_TOOLS = 4096;
export const MAX_TEXTS = 16_384;
export const MAX_FIELDS = 65_536;

export const freeObject = map(anyValue, MAX_FIELDS);

export const message = named(
  "ChatMessageParam",
  looseObject({
    role: field(z.string().min(1), "Who says it. Roles are not restricted: the chat template decides."),
    content: field(
      z.union([z.string(), typed(list(anyValue, MAX_PARTS), "readonly (string | object)[]")]).nullish(),
      "A text, or parts of one: texts, or objects with a `type` that says which of their fields is the text.",
    ),
    name: field(z.string().nullish(), "Of the one who says it, where the template shows it."),
    tool_calls: field(
      typed(list(anyValue, MAX_TOOLS), "readonly object[]").nullish(),
      "Of an assistant message: the functions that it called.",
    ),
    tool_call_id: field(typed(z.string().nullish(), "string"), "Of a tool message: the call that it answers."),
    reasoning: field(
      typed(anyValue.optional(), "string | null"),
      "What the assistant thought, where the template shows it.",
    ),
  }),
  "A message as a request takes it: any `ChatMessage`, and what is said less strictly; further fields reach the chat template.",
);
