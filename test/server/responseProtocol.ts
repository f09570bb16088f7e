// The documented protocol of response events, checked: their shapes, as the openai package publishes them, their order, and that what they tell
// bit by bit is what they tell in the end.

import type {
  ResponseStreamEvent as Published,
  Response as PublishedResponse,
  ResponseUsage as PublishedUsage,
} from "openai/resources/responses/responses";
import { expect } from "vitest";
import { responseStreamEvent } from "../../src/schemas/responses.js";
import type {
  ModelResponse,
  ResponseOutputItem,
  ResponseStreamEvent,
  ResponseUsage,
} from "../../src/types/responses.js";

type Whole = { response: unknown };
type Open = "output_text" | "tool_choice" | "text" | "incomplete_details" | "tools" | "usage";

/**
 * Ours are among those that are published: a difference is an error of types here. Of a response the packages add
 * `output_text` themselves, and what was asked is given back as it came.
 */
export const published = (event: Exclude<ResponseStreamEvent, Whole>): Exclude<Published, Whole> => event;
export const publishedUsage = (usage: ResponseUsage): PublishedUsage => usage;
export const publishedResponse = (response: ModelResponse): Omit<PublishedResponse, Open> => response;

const ENDS = new Set(["response.completed", "response.incomplete", "response.failed"]);

/** The events of a text of server-sent events. */
export function followsTheProtocol(text: string): ResponseStreamEvent[] {
  const blocks = text.split("\n\n");
  expect(blocks.pop()).toBe("");
  const events = blocks.map((block) => {
    const [, type, data] = /^event: (.*)\ndata: (.*)$/.exec(block)!;
    const event = JSON.parse(data!) as ResponseStreamEvent;
    expect(event.type).toBe(type);
    return event;
  });
  checkEvents(events);
  return events;
}

export function checkEvents(events: readonly ResponseStreamEvent[]): void {
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i));
  for (const event of events) expect(responseStreamEvent.safeParse(event).error).toBeUndefined();
  const types = events.map(({ type }) => type);
  expect(types[0]).toBe("response.created");
  const begun = types[1] === "response.queued" ? 2 : 1;
  expect(types[begun]).toBe("response.in_progress");
  expect(types.findIndex((type) => ENDS.has(type))).toBe(types.length - 1);
  const output: ResponseOutputItem[] = [];
  let open = -1;
  /** The state of the open item's part. */
  let part: { text: string; isDone: boolean } | null = null;
  for (const event of events.slice(begun + 1, -1)) {
    switch (event.type) {
      case "response.output_item.added":
        expect(open).toBe(-1);
        expect(event.output_index).toBe(output.length);
        expect(event.item.status).toBe("in_progress");
        open = event.output_index;
        output.push(event.item);
        part = event.item.type === "function_call" ? { text: event.item.arguments, isDone: false } : null;
        break;
      case "response.output_item.done": {
        expect(event.output_index).toBe(open);
        expect(event.item.id).toBe(output[open]!.id);
        expect(part?.isDone).toBe(true);
        expect(textOf(event.item)).toBe(part!.text);
        output[open] = event.item;
        open = -1;
        break;
      }
      case "response.content_part.added":
      case "response.reasoning_summary_part.added":
        expect(part).toBeNull();
        expect(event.part.text).toBe("");
        part = { text: "", isDone: false };
        break;
      case "response.output_text.delta":
      case "response.reasoning_text.delta":
      case "response.reasoning_summary_text.delta":
      case "response.function_call_arguments.delta":
        expect(event.delta).not.toBe("");
        expect(part!.isDone).toBe(false);
        part!.text += event.delta;
        break;
      case "response.output_text.done":
      case "response.reasoning_text.done":
      case "response.reasoning_summary_text.done":
        expect(event.text).toBe(part!.text);
        part!.isDone = true;
        break;
      case "response.function_call_arguments.done":
        expect(event.arguments).toBe(part!.text);
        part!.isDone = true;
        break;
      case "response.content_part.done":
      case "response.reasoning_summary_part.done":
        expect(part!.isDone).toBe(true);
        expect(event.part.text).toBe(part!.text);
        break;
      default:
        throw new Error(`${event.type} has no place there`);
    }
    if ("item_id" in event) {
      expect(event.item_id).toBe(output[open]!.id);
      expect(event.output_index).toBe(open);
    }
  }
  expect(open).toBe(-1);
  const { response } = events.at(-1) as { response: ModelResponse };
  expect(response.output).toEqual(output);
}

function textOf(item: ResponseOutputItem): string {
  if (item.type === "function_call") return item.arguments;
  return [...(item.content ?? []), ...(item.type === "reasoning" ? item.summary : [])].map(({ text }) => text).join("");
}
