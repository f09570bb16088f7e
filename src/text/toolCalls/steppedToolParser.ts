// What parsers have in common that go through a text from state to state.

import { type OfferedTools, ToolCallCollector, type ToolDelta, type ToolParser } from "./toolCallCollector.js";

export abstract class SteppedToolParser implements ToolParser {
  protected readonly collector: ToolCallCollector;

  constructor(asTheyCome: boolean, offered: OfferedTools | null) {
    this.collector = new ToolCallCollector(asTheyCome, offered);
  }

  get firstWhole(): number {
    return this.collector.firstWhole;
  }

  get isInCall(): boolean {
    return this.collector.isInCall;
  }

  push(text: string): ToolDelta {
    let rest = text;
    while (rest !== "") rest = this.step(rest);
    return this.collector.take();
  }

  abstract flush(): ToolDelta;

  /** Works on `text` up to a change of state; gives what is left of it. */
  protected abstract step(text: string): string;
}
