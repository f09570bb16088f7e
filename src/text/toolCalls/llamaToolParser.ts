// `{"name": ..., "parameters": {...}}` as the whole answer, in a text that comes in pieces.

import { JsonCallReader } from "./jsonCallReader.js";
import { SteppedToolParser } from "./steppedToolParser.js";
import type { ToolDelta } from "./toolCallCollector.js";

export const PYTHON_TAG = "<|python_tag|>";

/** An answer that does not begin with a call is content, to its end. */
export class LlamaToolParser extends SteppedToolParser {
  private state: "before" | "call" | "text" = "before";
  /** Before a call: what is not yet known to be content. */
  private held = "";

  flush(): ToolDelta {
    this.collector.breakOff();
    const isSeparator = this.collector.hasCalls && /^[\s;,]*$/.test(this.held);
    if (!isSeparator) this.collector.addContent(this.held);
    this.held = "";
    if (this.state === "call") this.state = "text";
    return this.collector.take();
  }

  protected step(text: string): string {
    if (this.state === "before") return this.readBefore(text);
    if (this.state === "call") return this.readCall(text);
    this.collector.addContent(text);
    return "";
  }

  /** Before a call stand white space and the tag, between two calls also `;` or `,`. */
  private readBefore(text: string): string {
    this.held += text;
    const separators = this.collector.hasCalls ? /^[\s;,]*/ : /^\s*/;
    const afterSpace = this.held.replace(separators, "");
    if (PYTHON_TAG.startsWith(afterSpace)) return "";
    const start = afterSpace.startsWith(PYTHON_TAG) ? afterSpace.slice(PYTHON_TAG.length).trimStart() : afterSpace;
    if (start === "") return "";
    if (start.startsWith("{")) {
      this.collector.beginCall(this.held.slice(0, this.held.length - start.length), new JsonCallReader());
      this.held = "";
      this.state = "call";
      return start;
    }
    this.collector.addContent(this.held);
    this.held = "";
    this.state = "text";
    return "";
  }

  private readCall(text: string): string {
    const { state, rest } = this.collector.readCall(text);
    if (state === "call") this.state = "before";
    else if (state === "content" || state === "broken") this.state = "text";
    return rest;
  }
}
