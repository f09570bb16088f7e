// `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` in a text that comes in pieces.

import { TagSearch } from "./tagSearch.js";
import { ToolCallCollector } from "./toolCallCollector.js";
import type { ToolDelta, ToolParser } from "./toolCalls.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/**
 * The white space before a call belongs to nobody. A block that is no call is content as it stands. After the object
 * of a call, a missing closing tag and stray brackets are forgiven.
 */
export class HermesToolParser implements ToolParser {
  private readonly collector = new ToolCallCollector();
  private state: "text" | "call" | "closing" = "text";
  private readonly opening = new TagSearch(OPEN);
  /** In a call: its text, until it is certain. After one: what may be the closing tag. */
  private held = "";

  push(text: string): ToolDelta {
    let rest = text;
    while (rest !== "") rest = this.step(rest);
    return this.collector.take();
  }

  flush(): ToolDelta {
    const rest = this.state === "text" ? this.opening.flush() : this.held;
    const isTrailingSpace = this.collector.hasCalls && rest.trim() === "";
    if (this.state !== "closing" && !isTrailingSpace) this.collector.addContent(rest);
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
    this.held = found.space + OPEN;
    this.state = "call";
    this.collector.beginCall();
    return found.after;
  }

  private readCall(text: string): string {
    for (let index = 0; index < text.length; index++) {
      const character = text[index]!;
      const state = this.collector.read(character);
      if (state === "failed") {
        if (!this.collector.isCertain) this.collector.addContent(this.held);
        this.held = "";
        this.state = this.collector.isCertain ? "closing" : "text";
        return text.slice(index);
      }
      this.held = this.collector.isCertain ? "" : this.held + character;
      if (state === "done") {
        this.state = "closing";
        return text.slice(index + 1);
      }
    }
    return "";
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
