/** A tokenizer folder that cannot be used, or an input that this tokenizer cannot take. */
export class TokenizerError extends Error {
  override readonly name = "TokenizerError";

  /** `file` is the file at fault, when there is one. */
  constructor(
    readonly reason: string,
    readonly file?: string,
    options?: ErrorOptions,
  ) {
    super(file === undefined ? reason : `${file}: ${reason}`, options);
  }
}

/** Messages that cannot be rendered; `location` is the path of the field at fault, `messages.2.content.0`. */
export class ConversationError extends Error {
  override readonly name = "ConversationError";

  constructor(
    readonly location: string,
    readonly reason: string,
  ) {
    super(`${location}: ${reason}`);
  }
}
