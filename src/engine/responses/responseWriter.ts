// A response as it is made: what comes of the model becomes items, and events that tell of them.

import { isJson } from "../../json.js";
import { namespacedName } from "../../schemas/offeredFunctions.js";
import type { ToolCallDelta } from "../../types/chat.js";
import type {
  ModelResponse,
  ResponseFunctionCall,
  ResponseLogprob,
  ResponseOutputMessage,
  ResponseReasoningItem,
  ResponseStreamEvent,
  ResponseUsage,
} from "../../types/responses.js";
import { newId } from "./inputItems.js";
import { encodeThoughts } from "./thoughts.js";

/** An event before it has its number. */
type Unnumbered<E> = E extends unknown ? Omit<E, "sequence_number"> : never;
type NewEvent = Unnumbered<ResponseStreamEvent>;

type Incomplete = NonNullable<ModelResponse["incomplete_details"]>["reason"];

type Item = ResponseReasoningItem | ResponseOutputMessage | ResponseFunctionCall;

export interface WriterOptions {
  /** Thoughts are told as a summary. */
  summarises: boolean;
  /** Thoughts are told in encoded form too. */
  encodes: boolean;
  /** Of a new item. */
  idOf?(prefix: string): string;
}

/** Writes one response; events are gathered until they are taken. */
export class ResponseWriter {
  private events: ResponseStreamEvent[] = [];
  private sequence = 0;
  /** The item that what comes next belongs to, the last of the output. */
  private open: Item | null = null;
  /** Of the open call, in the reply. */
  private call = -1;

  constructor(
    readonly response: ModelResponse,
    private readonly options: WriterOptions,
  ) {}

  /** The events since the last call. */
  take(): ResponseStreamEvent[] {
    const { events } = this;
    this.events = [];
    return events;
  }

  begin(): void {
    if (this.response.status === "queued") {
      this.tell({ type: "response.created", response: this.snapshot() });
      this.tell({ type: "response.queued", response: this.snapshot() });
      this.response.status = "in_progress";
    } else {
      this.response.status = "in_progress";
      this.tell({ type: "response.created", response: this.snapshot() });
    }
    this.tell({ type: "response.in_progress", response: this.snapshot() });
  }

  think(text: string): void {
    if (text === "") return;
    const { summarises } = this.options;
    let item = this.open;
    if (item?.type !== "reasoning") {
      item = this.add<ResponseReasoningItem>({
        type: "reasoning",
        id: this.id("rs"),
        summary: [],
        ...(summarises ? {} : { content: [] }),
        status: "in_progress",
      });
      const place = this.place(item);
      if (summarises) {
        const part = { type: "summary_text", text: "" } as const;
        item.summary.push({ ...part });
        this.tell({ type: "response.reasoning_summary_part.added", ...place, summary_index: 0, part });
      } else {
        const part = { type: "reasoning_text", text: "" } as const;
        item.content!.push({ ...part });
        this.tell({ type: "response.content_part.added", ...place, content_index: 0, part });
      }
    }
    const place = this.place(item);
    (summarises ? item.summary : item.content!)[0]!.text += text;
    if (summarises) {
      this.tell({ type: "response.reasoning_summary_text.delta", ...place, summary_index: 0, delta: text });
    } else {
      this.tell({ type: "response.reasoning_text.delta", ...place, content_index: 0, delta: text });
    }
  }

  say(text: string, logprobs: ResponseLogprob[]): void {
    if (text === "" && this.open?.type !== "message") return;
    // Space between calls is nothing that is said.
    if (this.open?.type === "function_call" && text.trim() === "") return;
    const item = this.open?.type === "message" ? this.open : this.beginMessage();
    const part = item.content[0]!;
    part.text += text;
    for (const entry of logprobs) part.logprobs.push(entry);
    if (text === "" && logprobs.length === 0) return;
    this.tell({ type: "response.output_text.delta", ...this.place(item), content_index: 0, delta: text, logprobs });
  }

  callFunction({ index, id, function: { name, arguments: text } }: ToolCallDelta): void {
    let item = this.open;
    if (item?.type !== "function_call" || index !== this.call) {
      this.call = index;
      item = this.add<ResponseFunctionCall>({
        type: "function_call",
        id: this.id("fc"),
        call_id: id ?? newId("call"),
        ...this.ownName(name ?? ""),
        arguments: "",
        status: "in_progress",
      });
    }
    if (!text) return;
    item.arguments += text;
    this.tell({ type: "response.function_call_arguments.delta", ...this.place(item), delta: text });
  }

  /** Of the function that the model sees as `name`. */
  private ownName(name: string): Pick<ResponseFunctionCall, "name" | "namespace"> {
    const { tools } = this.response;
    if (tools.some((tool) => tool.type === "function" && tool.name === name)) return { name };
    for (const tool of tools) {
      if (tool.type !== "namespace") continue;
      const called = tool.tools.find((one) => namespacedName(tool.name, one.name) === name);
      if (called !== undefined) return { name: called.name, namespace: tool.name };
    }
    return { name };
  }

  /** `incomplete`: why the response is not whole; null: it is. */
  end(incomplete: Incomplete | null, usage: ResponseUsage): void {
    const { response } = this;
    this.close(incomplete === null ? "completed" : "incomplete");
    // A reply of nothing is an empty text.
    if (incomplete === null && response.output.length === 0) {
      this.beginMessage();
      this.close("completed");
    }
    response.usage = usage;
    if (incomplete === null) {
      response.status = "completed";
      response.completed_at = Math.floor(Date.now() / 1000);
      this.tell({ type: "response.completed", response: this.snapshot() });
    } else {
      response.status = "incomplete";
      response.incomplete_details = { reason: incomplete };
      this.tell({ type: "response.incomplete", response: this.snapshot() });
    }
  }

  fail(message: string): void {
    this.close("incomplete");
    this.response.status = "failed";
    this.response.error = { code: "server_error", message };
    this.tell({ type: "response.failed", response: this.snapshot() });
  }

  /** Ends without an event: there is none for it. */
  cancel(): void {
    this.close("incomplete");
    this.response.status = "cancelled";
  }

  private beginMessage(): ResponseOutputMessage {
    const item = this.add<ResponseOutputMessage>({
      type: "message",
      id: this.id("msg"),
      role: "assistant",
      status: "in_progress",
      content: [],
    });
    item.content.push({ type: "output_text", text: "", annotations: [], logprobs: [] });
    const part = { type: "output_text", text: "", annotations: [], logprobs: [] } as const;
    const added = { ...part, annotations: [], logprobs: [] };
    this.tell({ type: "response.content_part.added", ...this.place(item), content_index: 0, part: added });
    return item;
  }

  private add<T extends Item>(item: T): T {
    this.close("completed");
    this.response.output.push(item);
    this.open = item;
    const output_index = this.response.output.length - 1;
    this.tell({ type: "response.output_item.added", output_index, item: structuredClone(item) });
    return item;
  }

  /** Ends the open item. */
  private close(status: "completed" | "incomplete"): void {
    const item = this.open;
    this.open = null;
    if (item === null) return;
    const place = { item_id: item.id, output_index: this.response.output.length - 1 };
    if (item.type === "message") {
      const part = item.content[0]!;
      const { text, logprobs } = part;
      this.tell({
        type: "response.output_text.done",
        ...place,
        content_index: 0,
        text,
        logprobs: structuredClone(logprobs),
      });
      this.tell({ type: "response.content_part.done", ...place, content_index: 0, part: structuredClone(part) });
    } else if (item.type === "function_call") {
      const { name, arguments: text } = item;
      this.tell({ type: "response.function_call_arguments.done", ...place, name, arguments: text });
    } else {
      this.closeThoughts(item, place);
    }
    // A call that a stop has cut is no whole one, though the response is.
    item.status = item.type === "function_call" && !isJson(item.arguments) ? "incomplete" : status;
    this.tell({
      type: "response.output_item.done",
      output_index: place.output_index,
      item: structuredClone(item),
    });
  }

  private closeThoughts(item: ResponseReasoningItem, place: { item_id: string; output_index: number }): void {
    const [summary] = item.summary;
    if (summary !== undefined) {
      const { text } = summary;
      this.tell({ type: "response.reasoning_summary_text.done", ...place, summary_index: 0, text });
      this.tell({ type: "response.reasoning_summary_part.done", ...place, summary_index: 0, part: { ...summary } });
    }
    const content = item.content?.[0];
    if (content !== undefined) {
      this.tell({ type: "response.reasoning_text.done", ...place, content_index: 0, text: content.text });
      this.tell({ type: "response.content_part.done", ...place, content_index: 0, part: { ...content } });
    }
    if (this.options.encodes) item.encrypted_content = encodeThoughts((content ?? summary)!.text);
  }

  private id(prefix: string): string {
    return this.options.idOf?.(prefix) ?? newId(prefix);
  }

  private place(item: Item): { item_id: string; output_index: number } {
    return { item_id: item.id, output_index: this.response.output.length - 1 };
  }

  /** What was asked does not change any more, however large it is. */
  private snapshot(): ModelResponse {
    return { ...this.response, output: structuredClone(this.response.output) };
  }

  private tell(event: NewEvent): void {
    this.events.push({ ...event, sequence_number: this.sequence++ } as ResponseStreamEvent);
  }
}
