// What is wrong with a constraint, and where in it.

export class GrammarError extends Error {
  /** Steps from the constraint to the place: keys and array positions. */
  readonly path: readonly string[];

  constructor(message: string, path: readonly string[] = []) {
    super(message);
    this.name = "GrammarError";
    this.path = path;
  }

  /** The same error seen from further outside. */
  under(...outer: readonly string[]): GrammarError {
    return new GrammarError(this.message, [...outer, ...this.path]);
  }
}

/** Runs `read`; an error's path then begins with `outer`. */
export function within<T>(outer: readonly string[], read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof GrammarError ? error.under(...outer) : error;
  }
}
