// What one piece of text gives: content, and pieces of calls.

import type { CallReader } from "./callReader.js";

/** A piece of a call: the first one of an index has its name, the others continue its arguments (JSON text). */
export interface ToolCallPiece {
  index: number;
  name?: string;
  arguments: string;
}

export interface ToolDelta {
  /** Text that is not part of a call. */
  content: string;
  toolCalls: ToolCallPiece[];
}

export interface ToolParser {
  /** Index of the first call that has been read to its end and is valid; Infinity: there is none. */
  readonly firstWhole: number;
  /** Whether the text so far ends inside of what may be a call. */
  readonly isInCall: boolean;
  push(text: string): ToolDelta;
  /** What was held back. More text may follow, which stands apart. */
  flush(): ToolDelta;
}

/** The parameters of the functions that may be called, JSON Schemas, by their names. */
export type OfferedTools = ReadonlyMap<string, unknown>;

/** Of a call: it is still being read; it has been one; it was none and is content as it stands; it broke off, handed out. */
export type CallState = "reading" | "call" | "content" | "broken";

/**
 * Reads calls one after the other and gathers what a delta will say. Calls that are handed out as they come are calls from
 * their arguments' first character on, whatever follows; others only once their object is whole and valid JSON. What names
 * a function that was not offered is no call.
 */
export class ToolCallCollector {
  private reader: CallReader | null = null;
  private announced = false;
  private calls = 0;
  /** As of a `ToolParser`. */
  firstWhole = Number.POSITIVE_INFINITY;
  /** What stands before the object of the call being read. */
  private before = "";
  /** The object as far as it was read. */
  private object = "";
  private content: string[] = [];
  private pieces: ToolCallPiece[] = [];

  /** `offered`: the functions that may be called; null: any. */
  constructor(
    private readonly asTheyCome: boolean,
    private readonly offered: OfferedTools | null,
  ) {}

  /** Whether there has been any call. */
  get hasCalls(): boolean {
    return this.calls > 0;
  }

  /** Whether a call is being read. */
  get isInCall(): boolean {
    return this.reader !== null;
  }

  addContent(text: string): void {
    if (text !== "") this.content.push(text);
  }

  /** A call may follow; `before` belongs to it if it is one, and is content otherwise. */
  beginCall(before: string, reader: CallReader): void {
    this.reader = reader;
    this.announced = false;
    this.before = before;
    this.object = "";
  }

  /** Reads on in the call, to its end or to what cannot be part of one; gives what is left of `text`. */
  readCall(text: string): { state: CallState; rest: string } {
    const reader = this.reader!;
    for (let index = 0; index < text.length; index++) {
      const character = text[index]!;
      const state = reader.push(character);
      if (reader.name !== null && this.offered?.has(reader.name) === false) {
        return { state: this.breakOff(), rest: text.slice(index) };
      }
      if (this.asTheyCome) this.handOut(reader);
      if (state === "failed") return { state: this.breakOff(), rest: text.slice(index) };
      this.object += character;
      if (state === "done") return { state: this.endCall(reader), rest: text.slice(index + 1) };
    }
    return { state: "reading", rest: "" };
  }

  /** The call ends here, unfinished or not valid: it is content unless it has been handed out. */
  breakOff(): CallState {
    const state = this.announced ? "broken" : "content";
    this.reader = null;
    if (state === "content") this.addContent(this.before + this.object);
    this.before = "";
    this.object = "";
    return state;
  }

  private endCall(reader: CallReader): CallState {
    if (!reader.isSound(this.object)) return this.breakOff();
    if (!this.asTheyCome) {
      this.announced = true;
      this.pieces.push({ index: this.calls++, name: reader.name!, arguments: reader.takeArguments() });
    }
    this.firstWhole = Math.min(this.firstWhole, this.calls - 1);
    this.reader = null;
    this.before = "";
    this.object = "";
    return "call";
  }

  private handOut(reader: CallReader): void {
    const { name } = reader;
    if (name !== null && !this.announced) {
      this.announced = true;
      this.pieces.push({ index: this.calls++, name, arguments: "" });
    }
    const text = reader.takeArguments();
    if (text !== "") this.addArguments(text);
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
