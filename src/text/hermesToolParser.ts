// `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` in a text that comes in pieces.

import { ToolCallCollector, type ToolDelta, type ToolParser } from "./toolCallCollector.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/**
 * The white space before the first call is content, between calls it belongs to nobody. A block that is no call is content as it stands. After the object
 * of a call, a missing closing tag and stray brackets are forgiven.
 */
export class HermesToolParser implements ToolParser {
  private readonly collector: ToolCallCollector;
  private state: "text" | "call" | "closing" = "text";
  private readonly opening = new TagSearch(OPEN);
  /** After a call: what may be the closing tag. */
  private held = "";

  constructor(asTheyCome: boolean, offered: ReadonlySet<string> | null) {
    this.collector = new ToolCallCollector(asTheyCome, offered);
  }

  push(text: string): ToolDelta {
    let rest = text;
    while (rest !== "") rest = this.step(rest);
    return this.collector.take();
  }

  flush(): ToolDelta {
    this.collector.breakOff();
    const rest = this.opening.flush();
    const isTrailingSpace = this.collector.hasCalls && rest.trim() === "";
    if (!isTrailingSpace) this.collector.addContent(rest);
    this.held = "";
    return this.collector.take();
  }

  /** Works on `text` up to a change of state; gives what is left of it. */
  private step(text: string): string {
    if (this.state === "text") return this.readText(text);
    return this.state === "call" ? this.readCall(text) : this.readClosing(text);
  }

  private readText(text: string): string {
    const { text: content, found } = this.opening.push(text);
    this.collector.addContent(content);
    if (found === null) return "";
    this.state = "call";
    if (!this.collector.hasCalls) this.collector.addContent(found.space);
    this.collector.beginCall(this.collector.hasCalls ? found.space + OPEN : OPEN);
    return found.after;
  }

  private readCall(text: string): string {
    const { state, rest } = this.collector.readCall(text);
    if (state !== "reading") this.state = state === "call" ? "closing" : "text";
    return rest;
  }

  private readClosing(text: string): string {
    const all = (this.held + text).replace(/^[\s}\]]+/, "");
    this.held = "";
    if (all.startsWith(CLOSE)) {
      this.state = "text";
      return all.slice(CLOSE.length);
    }
    if (CLOSE.startsWith(all)) {
      this.held = all;
      return "";
    }
    this.state = "text";
    return all;
  }
}

// Looking for a tag in a text that comes in pieces.

/** What a piece of text made certain. */
export interface BeforeTag {
  text: string;
  /** Once the tag has come: the white space before it, and what follows it. */
  found: { space: string; after: string } | null;
}

/** Holds back what may be the tag, and white space that may stand before it; constant work per character. */
export class TagSearch {
  private space = "";
  private tail = "";

  constructor(private readonly tag: string) {}

  push(piece: string): BeforeTag {
    const all = this.tail + piece;
    const at = all.indexOf(this.tag);
    const certain = at >= 0 ? all.slice(0, at) : all.slice(0, all.length - this.heldLength(all));
    const body = certain.trimEnd();
    const text = body === "" ? "" : this.space + body;
    this.space = (body === "" ? this.space : "") + certain.slice(body.length);
    this.tail = at >= 0 ? "" : all.slice(certain.length);
    if (at < 0) return { text, found: null };
    const { space } = this;
    this.space = "";
    return { text, found: { space, after: all.slice(at + this.tag.length) } };
  }

  /** What was held back. */
  flush(): string {
    const rest = this.space + this.tail;
    this.space = "";
    this.tail = "";
    return rest;
  }

  /** How many of the last characters could be the beginning of the tag. */
  private heldLength(text: string): number {
    for (let length = Math.min(text.length, this.tag.length - 1); length > 0; length--) {
      if (this.tag.startsWith(text.slice(text.length - length))) return length;
    }
    return 0;
  }
}
