import { createInterface, type Interface, type Key } from "node:readline";
import { Writable } from "node:stream";
import { cyan } from "../terminalText.js";
import { MessageLines } from "./messageLines.js";

/** A terminal marks what is pasted into it between two key codes when it is asked to. */
const BRACKETED_PASTE = { on: "\x1b[?2004h", off: "\x1b[?2004l" };

/** What the line editor draws; nothing while a reply is written to the same terminal. */
class Screen extends Writable {
  isDrawn = true;
  readonly #output: NodeJS.WriteStream;

  constructor(output: NodeJS.WriteStream) {
    super();
    this.#output = output;
    output.on("resize", () => this.emit("resize"));
  }

  get columns(): number {
    return this.#output.columns || 80;
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    if (this.isDrawn) this.#output.write(chunk);
    done();
  }
}

/**
 * Messages typed at a terminal. What is typed between two calls of `next` is kept: whole messages for the next calls, an
 * unfinished line for its prompt.
 */
export class TerminalInput {
  readonly #lines = new MessageLines();
  readonly #messages: string[] = [];
  readonly #output: NodeJS.WriteStream;
  readonly #screen: Screen;
  readonly #editor: Interface;
  #isPasting = false;
  #isClosed = false;
  #waiting: ((message: string | null) => void) | null = null;

  constructor(input: NodeJS.ReadableStream, output: NodeJS.WriteStream, onInterrupt: () => void) {
    this.#output = output;
    this.#screen = new Screen(output);
    this.#screen.isDrawn = false;
    output.write(BRACKETED_PASTE.on);
    this.#editor = createInterface({ input, output: this.#screen, terminal: true });
    this.#editor.on("SIGINT", onInterrupt);
    this.#editor.on("line", (line) => this.#take(line));
    this.#editor.on("close", () => {
      this.#isClosed = true;
      output.write(BRACKETED_PASTE.off);
      this.#answer(null);
    });
    input.on("keypress", (_text: string | undefined, key: Key) => {
      if (key.name === "paste-start") this.#isPasting = true;
      if (key.name === "paste-end") this.#isPasting = false;
    });
  }

  /** The next message, null at the end of input. */
  async next(): Promise<string | null> {
    const kept = this.#messages.shift();
    if (kept !== undefined) {
      this.#output.write(`${this.#prompt(false)}${kept.replaceAll("\n", `\n${this.#prompt(true)}`)}\n`);
      return kept;
    }
    if (this.#isClosed) return null;
    // The editor must forget on which row of the screen it drew: that is the reply's now.
    const { line } = this.#editor;
    this.#editor.write(null, { ctrl: true, name: "e" });
    this.#editor.write(null, { ctrl: true, name: "u" });
    this.#screen.isDrawn = true;
    this.#showPrompt();
    if (line !== "") this.#editor.write(line);
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  /** Whether a message has been begun and not sent. */
  get isBegun(): boolean {
    return this.#lines.isOpen || this.#editor.line !== "";
  }

  /** While a message is waited for: drops what has been begun of it; `note` is shown below. */
  clear(note = ""): void {
    this.#lines.clear();
    this.#editor.write(null, { ctrl: true, name: "e" });
    this.#screen.isDrawn = false;
    this.#editor.write(null, { ctrl: true, name: "u" });
    this.#screen.isDrawn = true;
    this.#output.write(`\n${note}`);
    this.#showPrompt();
  }

  close(): void {
    this.#editor.close();
  }

  #take(line: string): void {
    const message = this.#lines.add(line, this.#isPasting);
    if (message === null) this.#showPrompt();
    else if (this.#waiting) this.#answer(message);
    else this.#messages.push(message);
  }

  #answer(message: string | null): void {
    this.#screen.isDrawn = false;
    this.#waiting?.(message);
    this.#waiting = null;
  }

  #showPrompt(): void {
    this.#editor.setPrompt(this.#prompt(this.#lines.isOpen));
    this.#editor.prompt();
  }

  #prompt(goesOn: boolean): string {
    return cyan(goesOn ? "… " : "> ", this.#output);
  }
}
