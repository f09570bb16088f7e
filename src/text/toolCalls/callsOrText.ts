// An answer that is nothing but calls or holds none, in a text that comes in pieces.

import type { ToolDelta, ToolParser } from "./toolCallCollector.js";

/** White space does not count where beginnings are compared: models and tokenizers write more of it than templates, or less. */
export class CallsOrText implements ToolParser {
  private readonly beginnings: readonly string[];
  private state: "unknown" | "calls" | "text" = "unknown";
  /** While it is not known which of them it is. */
  private held = "";

  /** `calls` reads what begins as one of `beginnings` does; all else is content. */
  constructor(
    private readonly calls: ToolParser,
    beginnings: readonly string[],
  ) {
    this.beginnings = beginnings.map(withoutSpace);
  }

  get firstWhole(): number {
    return this.calls.firstWhole;
  }

  get isInCall(): boolean {
    return this.state === "calls" && this.calls.isInCall;
  }

  push(text: string): ToolDelta {
    if (this.state === "unknown") return this.begin(text);
    return this.state === "calls" ? this.calls.push(text) : content(text);
  }

  flush(): ToolDelta {
    if (this.state === "calls") return this.calls.flush();
    this.state = "text";
    return content(this.take());
  }

  private begin(text: string): ToolDelta {
    this.held += text;
    const begun = withoutSpace(this.held);
    if (this.beginnings.some((beginning) => begun.startsWith(beginning))) this.state = "calls";
    else if (!this.beginnings.some((beginning) => beginning.startsWith(begun))) this.state = "text";
    return this.state === "unknown" ? content("") : this.push(this.take());
  }

  private take(): string {
    const { held } = this;
    this.held = "";
    return held;
  }
}

function withoutSpace(text: string): string {
  return text.replace(/\s+/g, "");
}

function content(text: string): ToolDelta {
  return { content: text, toolCalls: [] };
}
