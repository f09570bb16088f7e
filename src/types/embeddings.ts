// Made of src/schemas/embeddings.ts by `npm run generate`: change those.

/** Texts whose vectors are asked for. */
export interface EmbeddingCreateParams {
  /**
   * A base model, or a trained model's name, such as `project/name` or `entity/project/name:step3`; a NotFoundError
   * when there is none. Default: the engine's first base model.
   */
  model?: string | null;
  /**
   * Keep so many of the prompt's tokens; -1: as many as the context has room for. Default: a prompt that is too long is
   * a ValidationError.
   */
  truncate_prompt_tokens?: number | null;
  /** Lower runs earlier. A ValidationError unless it is 0 or the engine's scheduler is "priority". Default: 0. */
  priority?: number | null;
  /** Part of the reply's `id`. Default: a random one. */
  request_id?: string | null;
  /** Without effect. */
  user?: string | null;
  /**
   * A text, token ids, or a list of either, of 2048 entries at most. None may be empty, nor longer than the model
   * takes.
   */
  input: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  /**
   * "float": vectors are lists of numbers. "base64": the bytes of their float32, the lowest first. Default: "float".
   */
  encoding_format?: "float" | "base64" | null;
  /**
   * Only so many of a vector's first numbers, scaled to length 1 again where whole vectors have it. A whole number, at
   * least 1. Default: all.
   */
  dimensions?: number | null;
  /**
   * Which end of a text is cut: "right" keeps its first tokens, "left" its last; the tokens that the tokenizer adds
   * stay. Default: "right".
   */
  truncation_side?: "left" | "right" | null;
  /**
   * Whether the tokenizer adds the tokens that texts begin and end with, which models of embeddings are made for. Token
   * ids are taken as they are. Default: true.
   */
  add_special_tokens?: boolean | null;
}

/** The vector of an input. */
export interface Embedding {
  object: "embedding";
  /** Which input it is of. */
  index: number;
  /** The vector, in the form that was asked for. */
  embedding: number[] | string;
}

/** The vectors of texts. */
export interface EmbeddingList {
  /** `embd-` and the request's id. */
  id: string;
  object: "list";
  /** Unix time, in seconds. */
  created: number;
  /** The model that answered; of a trained one with its step. */
  model: string;
  /** One entry per input, in order. */
  data: Embedding[];
  /** How many tokens it took. */
  usage: {
    /** Of all inputs. */
    prompt_tokens: number;
    /** The same. */
    total_tokens: number;
  };
}
