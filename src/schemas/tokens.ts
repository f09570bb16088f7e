import * as z from "zod";
import { field, mutable, named, open } from "./fields.js";
import { list, looseObject } from "./limited.js";
import { message } from "./parts.js";

/** Of 32 bits, as tokenizers number them. */
const MAX_ID = 2 ** 32 - 1;

const model = field(
  z.string().nullish(),
  "A base model, or a trained model's name. Default: the engine's first base model.",
);

export const tokenizeRequest = named(
  "TokenizeParams",
  open(
    looseObject({
      model,
      prompt: field(z.string().nullish(), "A text."),
      messages: field(mutable(list(message, 131_072)).nullish(), "A conversation."),
      add_special_tokens: field(
        z.boolean().nullish(),
        "Whether the tokenizer adds the tokens that texts begin and end with. Default: true for a prompt, false for messages.",
      ),
      return_token_strs: field(z.boolean().nullish(), "Whether the answer has the tokens' pieces too.", {
        default: false,
      }),
    }),
    "chatField",
  ),
  "Either `prompt` or `messages`; with `messages` the fields that shape a chat completion's prompt apply as there.",
);

export const tokenizeResult = named(
  "TokenizeResult",
  z.object({
    count: field(z.int(), "How many tokens."),
    max_model_len: field(z.int(), "The model's context, in tokens."),
    tokens: field(z.array(z.int()), "Their ids."),
    token_strs: field(z.array(z.string()).nullable(), "The vocabulary's pieces, where they were asked for."),
  }),
  "The tokens of a text.",
);

export const detokenizeRequest = named(
  "DetokenizeParams",
  z.object({
    model,
    tokens: field(
      list(z.int().min(0).max(MAX_ID), 2 ** 24),
      "Token ids. Those that the vocabulary lacks have no text.",
    ),
  }),
  "Tokens whose text is asked for.",
);

export const detokenizeResult = named(
  "DetokenizeResult",
  z.object({ prompt: field(z.string(), "The text, special tokens included.") }),
  "The text of tokens.",
);

export const tokenizerQuery = named("TokenizerQuery", z.object({ model }), "Whose tokenizer is asked for.");

const specialToken = (use: string) =>
  field(z.string().nullable(), `The text of the token ${use}; null: there is none.`);

export const tokenizerInfo = named(
  "TokenizerInfo",
  z.object({
    model_max_length: field(z.int(), "The model's context, in tokens."),
    bos_token: specialToken("that texts begin with"),
    eos_token: specialToken("that texts end with"),
    unk_token: specialToken("that stands for what the vocabulary lacks"),
    pad_token: specialToken("that fills up"),
    chat_template: field(
      z.string().nullable(),
      "The Jinja template that makes prompts of conversations; null: there is none.",
    ),
  }),
  "What clients that split texts and render conversations themselves ask for.",
);
