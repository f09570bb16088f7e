import { GrammarError } from "../grammar/grammarError.js";

/** A schema is part of what it consists of. */
export class CircularError extends GrammarError {
  constructor(path: readonly string[]) {
    super("refers to itself without a property or item between", path);
  }
}
