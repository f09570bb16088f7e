// What one piece of text gives: content, and pieces of calls.

import { type ReaderState, ToolCallReader } from "./toolCallReader.js";
import type { ToolCallPiece, ToolDelta } from "./toolCalls.js";

/** Reads calls one after the other and gathers what a delta will say. */
export class ToolCallCollector {
  private reader = new ToolCallReader();
  private announced = false;
  private calls = 0;
  /** What has been read since before the call, until it is certain to be one. */
  private uncertain = "";
  private content: string[] = [];
  private pieces: ToolCallPiece[] = [];

  /** Whether the call being read is certain to be one. */
  get isCertain(): boolean {
    return this.reader.name !== null;
  }

  /** Whether there has been any call. */
  get hasCalls(): boolean {
    return this.calls > 0;
  }

  addContent(text: string): void {
    if (text !== "") this.content.push(text);
  }

  /** A call may follow; `before` belongs to it if it is one, and is content otherwise. */
  beginCall(before: string): void {
    this.reader = new ToolCallReader();
    this.announced = false;
    this.uncertain = before;
  }

  /** Reads on in the call, to its end or to what cannot be part of one; gives what is left of `text`. */
  readCall(text: string): { state: ReaderState; rest: string } {
    for (let index = 0; index < text.length; index++) {
      const character = text[index]!;
      const state = this.read(character);
      if (state === "failed") {
        this.breakOff();
        return { state, rest: text.slice(index) };
      }
      this.uncertain = this.isCertain ? "" : this.uncertain + character;
      if (state === "done") return { state, rest: text.slice(index + 1) };
    }
    return { state: "reading", rest: "" };
  }

  /** The call ends here: what is not certain to be one is content. */
  breakOff(): void {
    this.addContent(this.uncertain);
    this.uncertain = "";
  }

  private read(character: string): ReaderState {
    const state = this.reader.push(character);
    const { name } = this.reader;
    if (name !== null && !this.announced) {
      this.announced = true;
      this.pieces.push({ index: this.calls++, name, arguments: "" });
    }
    const text = this.reader.takeArguments();
    if (text !== "") this.addArguments(text);
    return state;
  }

  private addArguments(text: string): void {
    const index = this.calls - 1;
    const last = this.pieces.at(-1);
    if (last !== undefined && last.index === index && last.name === undefined) last.arguments += text;
    else this.pieces.push({ index, arguments: text });
  }

  take(): ToolDelta {
    const delta = { content: this.content.join(""), toolCalls: this.pieces };
    this.content = [];
    this.pieces = [];
    return delta;
  }
}
