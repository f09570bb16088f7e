import { z } from "zod";
import { list, looseObject } from "./limited.js";

/** Either `prompt` or `messages`; with `messages` the fields that shape a chat completion's prompt apply as there. */
export const tokenizeRequest = looseObject({
  model: z.string().nullish(),
  prompt: z.string().nullish(),
  messages: list(looseObject({ role: z.string() }), 131_072).nullish(),
  add_special_tokens: z.boolean().nullish(),
  return_token_strs: z.boolean().nullish(),
});

export const detokenizeRequest = z.object({
  model: z.string().nullish(),
  tokens: list(z.int().min(0), 2 ** 24),
});
