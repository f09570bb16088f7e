// Embeddings: texts to vectors.

import * as z from "zod";
import { chatFields } from "./chat.js";
import { byDefault, field, named, typed } from "./fields.js";
import { list } from "./limited.js";
import { flag, optional } from "./parts.js";

/** Far beyond any context: what does not fit is told by what it has too many of. */
const MAX_TOKENS = 2 ** 20;

const tokens = list(z.int().min(0), MAX_TOKENS).min(1);

export const embeddingCreate = named(
  "EmbeddingCreateParams",
  z.object({
    ...chatFields.pick({ model: true, truncate_prompt_tokens: true, priority: true, request_id: true, user: true })
      .shape,
    input: field(
      typed(
        z.union([z.string(), list(z.union([z.string(), tokens, z.int().min(0)]), MAX_TOKENS).min(1)]),
        "string | readonly string[] | readonly number[] | readonly (readonly number[])[]",
      ),
      "A text, token ids, or a list of either, of 2048 entries at most. None may be empty, nor longer than the model takes.",
    ),
    encoding_format: field(
      byDefault(z.enum(["float", "base64"]), "float"),
      '"float": vectors are lists of numbers. "base64": the bytes of their float32, the lowest first.',
    ),
    dimensions: field(
      optional(z.int().min(1)),
      "Only so many of a vector's first numbers, scaled to length 1 again where whole vectors have it. Default: all.",
    ),
    truncation_side: field(
      optional(z.enum(["left", "right"])),
      'Which end of a text is cut: "right" keeps its first tokens, "left" its last; the tokens that the tokenizer adds stay. Default: "right".',
    ),
    add_special_tokens: field(
      flag(true),
      "Whether the tokenizer adds the tokens that texts begin and end with, which models of embeddings are made for. Token ids are taken as they are.",
    ),
  }),
  "Texts whose vectors are asked for.",
);

export type EmbeddingRequest = z.output<typeof embeddingCreate>;

const embedding = named(
  "Embedding",
  z.object({
    object: z.literal("embedding"),
    index: field(z.int(), "Which input it is of."),
    embedding: field(z.union([z.array(z.number()), z.string()]), "The vector, in the form that was asked for."),
  }),
  "The vector of an input.",
);

export const embeddingList = named(
  "EmbeddingList",
  z.object({
    id: field(z.string(), "`embd-` and the request's id."),
    object: z.literal("list"),
    created: field(z.int(), "Unix time, in seconds."),
    model: field(z.string(), "The model that answered; of a trained one with its step."),
    data: field(z.array(embedding), "One entry per input, in order."),
    usage: field(
      z.object({
        prompt_tokens: field(z.int(), "Of all inputs."),
        total_tokens: field(z.int(), "The same."),
      }),
      "How many tokens it took.",
    ),
  }),
  "The vectors of texts.",
);
