const QUOTES = '"""';

/**
 * Lines of a terminal to messages. One line is one message, but that a line that ends with a backslash goes on in the next,
 * a block between `"""` is one message, and lines that were pasted stay together until one that was typed ends them.
 */
export class MessageLines {
  #lines: string[] = [];
  #isQuoted = false;

  /** Whether a message has begun. */
  get isOpen(): boolean {
    return this.#isQuoted || this.#lines.length > 0;
  }

  /** @returns the message that the line completes, null when it goes on. */
  add(line: string, isPasted: boolean): string | null {
    if (this.#isQuoted) {
      const isEnd = line.trimEnd().endsWith(QUOTES);
      const rest = isEnd ? line.trimEnd().slice(0, -QUOTES.length) : line;
      if (!isEnd || rest.trim() !== "") this.#lines.push(rest);
      return isEnd ? this.#end() : null;
    }
    if (line.trimStart().startsWith(QUOTES) && this.#lines.length === 0) {
      this.#isQuoted = true;
      const rest = line.trimStart().slice(QUOTES.length);
      return rest.trim() === "" ? null : this.add(rest, isPasted);
    }
    if (isPasted) {
      this.#lines.push(line);
      return null;
    }
    const goesOn = /(?<!\\)(\\\\)*\\$/.test(line);
    this.#lines.push(goesOn ? line.slice(0, -1) : line);
    return goesOn ? null : this.#end();
  }

  clear(): void {
    this.#lines = [];
    this.#isQuoted = false;
  }

  #end(): string {
    const message = this.#lines.join("\n");
    this.clear();
    return message;
  }
}
