// Calls behind a mark, in a text that comes in pieces: one, or a list of them.

import type { CallReader } from "./callReader.js";
import { SteppedToolParser } from "./steppedToolParser.js";
import { TagSearch } from "./tagSearch.js";
import type { OfferedTools, ToolDelta } from "./toolCallCollector.js";

export interface MarkedCalls {
  /** What stands before a call, or before a list of calls. */
  opens: readonly string[];
  /** What stands after it; it may be missing. */
  closes: readonly string[];
  /** Whether calls may stand in a list, `[a, b]`. */
  lists: boolean;
  /** Whether an answer that begins with a list needs no mark. */
  bareList?: boolean;
  /** Several calls may follow a mark, each on a line of its own. */
  lines?: boolean;
  /** Reads a call that begins with `first` after the mark `open`. */
  reader(open: string, first: string, offered: OfferedTools | null): CallReader;
}

/**
 * The white space before the first call is content, between calls it belongs to nobody. What follows a mark and is no call is
 * content as it stands. After a call, a missing closing mark and stray brackets are forgiven.
 */
export class MarkedToolParser extends SteppedToolParser {
  private readonly opening: TagSearch;
  private state: "start" | "text" | "opening" | "call" | "next" | "closing";
  /** What is not yet known to be part of a call. */
  private held = "";
  /** The mark that came last. */
  private open = "";
  private inList = false;

  constructor(
    private readonly marks: MarkedCalls,
    asTheyCome: boolean,
    private readonly offered: OfferedTools | null,
  ) {
    super(asTheyCome, offered);
    this.opening = new TagSearch(marks.opens);
    this.state = marks.bareList ? "start" : "text";
  }

  flush(): ToolDelta {
    const { state, held } = this;
    this.held = "";
    this.state = "text";
    // A comma that no call came after is nobody's.
    if (state === "start" || (state === "opening" && !/^\s*,/.test(held))) this.collector.addContent(held);
    else if (state === "call") this.collector.breakOff();
    else if (state === "text") {
      const rest = this.opening.flush();
      const isTrailingSpace = this.collector.hasCalls && rest.trim() === "";
      if (!isTrailingSpace) this.collector.addContent(rest);
    }
    return this.collector.take();
  }

  protected step(text: string): string {
    switch (this.state) {
      case "start":
        return this.readStart(text);
      case "text":
        return this.readText(text);
      case "opening":
        return this.readOpening(text);
      case "call":
        return this.readCall(text);
      case "next":
        return this.readNext(text);
      case "closing":
        return this.readClosing(text);
    }
  }

  private readStart(text: string): string {
    if (text.trimStart() === "") return this.hold(this.held + text);
    const all = this.take(text);
    const first = all.trimStart();
    if (first.startsWith("[")) return this.opened("", all.slice(0, all.length - first.length), first);
    this.state = "text";
    return all;
  }

  private readText(text: string): string {
    const { text: content, found } = this.opening.push(text);
    this.collector.addContent(content);
    if (found === null) return "";
    const { tag, space, after } = found;
    if (!this.collector.hasCalls) this.collector.addContent(space);
    return this.opened(tag, this.collector.hasCalls ? space + tag : tag, after);
  }

  private opened(mark: string, before: string, after: string): string {
    this.open = mark;
    this.inList = false;
    this.state = "opening";
    return this.hold(before, after);
  }

  /** Between a mark and its first call stand white space and the bracket of a list; between two calls of a list, white space. */
  private readOpening(text: string): string {
    const space = /^\s*/.exec(text)![0];
    const rest = text.slice(space.length);
    if (rest === "") return this.hold(this.held + text);
    if (this.marks.lists && !this.inList && rest.startsWith("[")) {
      this.inList = true;
      return this.hold(`${this.held + space}[`, rest.slice(1));
    }
    return this.begin(this.take(space), rest);
  }

  private begin(before: string, rest: string): string {
    this.collector.beginCall(before, this.marks.reader(this.open, rest[0]!, this.offered));
    this.state = "call";
    return rest;
  }

  private readCall(text: string): string {
    const { state, rest } = this.collector.readCall(text);
    if (state === "content" || state === "broken") this.state = "text";
    else if (state === "call") this.state = this.inList || this.marks.lines ? "next" : "closing";
    return rest;
  }

  /** After a call of several stands another one, or their end. */
  private readNext(text: string): string {
    if (text.trimStart() === "") return this.hold(this.held + text);
    const all = this.take(text);
    const rest = all.trimStart();
    if (this.inList) {
      const another = /^,\s*(?=\S)/.exec(rest);
      if (another !== null)
        return this.begin(all.slice(0, all.length - rest.length) + another[0], rest.slice(another[0].length));
      if (/^,\s*$/.test(rest)) {
        this.state = "opening";
        return this.hold(all);
      }
    } else if (/^[A-Za-z_]/.test(rest)) {
      return this.begin(all.slice(0, all.length - rest.length), rest);
    }
    this.state = "closing";
    return rest;
  }

  private readClosing(text: string): string {
    const all = this.take(text).replace(/^[\s}\]]+/, "");
    const close = this.marks.closes.find((mark) => all.startsWith(mark));
    if (close === undefined && ["", ...this.marks.closes].some((mark) => mark.startsWith(all))) return this.hold(all);
    this.state = "text";
    return close === undefined ? all : all.slice(close.length);
  }

  /** What was held back, and `text`. */
  private take(text: string): string {
    const all = this.held + text;
    this.held = "";
    return all;
  }

  /** Holds back; gives what is left. */
  private hold(text: string, rest = ""): string {
    this.held = text;
    return rest;
  }
}
