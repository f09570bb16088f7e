// Replies of gpt-oss: messages, one after the other, each with a header that names its channel, and the function it calls.
//
//   <|channel|>analysis<|message|>thoughts<|end|><|start|>assistant<|channel|>final<|message|>answer<|return|>
//   <|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1}<|call|>
//
// What is said on the commentary channel to nobody is meant for the user, as the final answer is.

import { NamedCallReader } from "./toolCalls/namedCallReader.js";
import { heldLength } from "./toolCalls/tagSearch.js";
import {
  type OfferedTools,
  ToolCallCollector,
  type ToolDelta,
  type ToolParser,
} from "./toolCalls/toolCallCollector.js";

const [START, CHANNEL, CONSTRAIN, MESSAGE] = ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"] as const;
/** What a reply ends with; `CALL` also a call. */
export const HARMONY_ENDS = ["<|return|>", "<|call|>"] as const;
const [RETURN, CALL] = HARMONY_ENDS;
const ENDS: ReadonlySet<string> = new Set(HARMONY_ENDS);
/** Of a message, behind which the reply goes on. */
export const HARMONY_MESSAGE_END = "<|end|>";
const END = HARMONY_MESSAGE_END;

/** Each is a token. */
export const HARMONY_MARKS: readonly string[] = [START, CHANNEL, CONSTRAIN, MESSAGE, END, CALL, RETURN];

/** What a message's channel and form are named between. */
export const HARMONY_HEADER = { open: CHANNEL, close: MESSAGE } as const;

/** What thoughts, answers and calls are written as. */
export const HARMONY_TEXTS = {
  thoughts: { open: `${CHANNEL}analysis${MESSAGE}`, close: END },
  /** Models name the form of an answer at times. */
  answers: [`${CHANNEL}final${MESSAGE}`, `${CHANNEL}final ${CONSTRAIN}json${MESSAGE}`],
  /** Begins another message of the reply. */
  next: `${START}assistant`,
  call: (name: string) => `${CHANNEL}commentary to=functions.${name} ${CONSTRAIN}json${MESSAGE}`,
  callEnd: CALL,
} as const;

export const isHarmony = (templateSource: string): boolean =>
  [START, CHANNEL, MESSAGE].every((mark) => templateSource.includes(mark));

/** Of the message that a prompt ends in: what stands after the mark that begins it. */
export function begunMessage(prompt: string): string {
  const at = prompt.lastIndexOf(START);
  return at < 0 ? "" : prompt.slice(at + START.length);
}

/**
 * Where in a message, as `begunMessage` gives it, the reply goes on: before its channel is named, in the midst of its header, in
 * its text, or behind it.
 */
export function placeInMessage(begun: string): "role" | "header" | "text" | "end" {
  const text = begun.indexOf(MESSAGE);
  if (text < 0) return begun.includes(CHANNEL) ? "header" : "role";
  return [END, CALL, RETURN].some((mark) => begun.includes(mark, text)) ? "end" : "text";
}

export interface HarmonyDelta extends ToolDelta {
  reasoning: string;
}

export interface HarmonyOptions {
  /** As of `createToolParser`. */
  asTheyCome: boolean;
  /** The functions that may be called; null: any; "none": calls are not looked for. */
  offered: OfferedTools | null | "none";
  /** What the prompt has of the reply's first message already. Default: its role. */
  begun?: string;
  /** What is said has a form, and marks in it are text. Default false. */
  isFormed?: boolean;
  /**
   * The first half of a character, without its second one: stands before each mark, and before each other special token; what
   * looks like a mark without it is text. Default: "", all marks are such.
   */
  sign?: string;
}

/** Between two messages of one kind. */
const BREAK = "\n\n";

/** Headers that are longer are none. In UTF-16 units. */
const MAX_HEADER = 512;

/** What may stand before the channel: whom the message is for; in messages after the first, before that who speaks. */
const RECIPIENT_TO_COME = /^\s*(?:t(?:o(?:=\S*\s*)?)?)?$/;
const ROLE_TO_COME = /^\s*\S*\s*(?:t(?:o(?:=\S*\s*)?)?)?$/;

/**
 * Takes a reply apart as its text comes, however it is cut. Texts of several messages have an empty line between them. What
 * stands under no header is said to the user, and so is what is no call after all; a header that was cut off is nothing.
 */
export class HarmonyParser implements ToolParser {
  /** More thoughts may come after any message. */
  readonly isAnswering = false;
  private collector: ToolCallCollector;
  private readonly offered: OfferedTools | null | "none";
  private isFormed = false;
  private marks: Marks = SPELLED_MARKS;
  /** What may be the beginning of a mark. */
  private tail = "";
  /** What is read: a part of a header, a message's text, or what stands between two messages. */
  private part: "role" | "channel" | "constraint" | "text" | "between" = "between";
  /** Up to what is read. */
  private header = "";
  /** Of the header, the part that is read. */
  private piece = "";
  private roleToCome = ROLE_TO_COME;
  private channel = "";
  /** "spent": its call has been read. */
  private kind: "reasoning" | "content" | "call" | "spent" = "content";
  /** Whether the message is for the user. */
  private isAnswer = false;
  /** The function that the message calls, until its arguments have begun. */
  private callee: string | null = null;
  private reasoning = "";
  /** The message's text has not begun. */
  private isNew = false;
  /** Tokens behind what is said in a form that end a reply, unless that goes on. */
  private ending = "";
  private readonly hasTold = { reasoning: false, content: false };

  constructor({ asTheyCome, offered, begun = "assistant", isFormed = false, sign = "" }: HarmonyOptions) {
    const newCollector = () => new ToolCallCollector(asTheyCome, offered === "none" ? null : offered);
    this.collector = newCollector();
    this.offered = offered;
    this.push(START + begun);
    // Of a call whose arguments the prompt has begun only their rest would be read.
    if (this.kind !== "reasoning" && this.callee === null) this.kind = "content";
    this.collector = newCollector();
    this.tail = "";
    this.hasTold.reasoning = false;
    this.hasTold.content = false;
    if (this.part === "role") {
      this.roleToCome = RECIPIENT_TO_COME;
      this.piece = "";
    }
    this.isFormed = isFormed;
    if (sign !== "") this.marks = signedMarks(sign);
  }

  get firstWhole(): number {
    return this.collector.firstWhole;
  }

  get isInCall(): boolean {
    return this.collector.isInCall;
  }

  push(text: string): HarmonyDelta {
    const all = this.tail + text;
    let from = 0;
    const { sign, pattern, texts } = this.marks;
    for (const { 0: mark, index } of all.matchAll(pattern)) {
      this.readText(all.slice(from, index));
      this.readMark(mark.slice(sign.length));
      from = index + mark.length;
    }
    const to = all.length - heldLength(all.slice(from), texts);
    this.tail = all.slice(to);
    this.readText(all.slice(from, to));
    return this.take();
  }

  /** What was held back. */
  flush(): HarmonyDelta {
    const { tail } = this;
    this.tail = "";
    this.readText(tail);
    // A reply of a word or two that might have been its first header.
    const isAnswer = this.part === "role" && this.roleToCome === RECIPIENT_TO_COME && !this.piece.includes("=");
    if (isAnswer && this.piece.trim() !== "") this.beginUnheaded(this.piece);
    this.endText();
    return this.take();
  }

  private take(): HarmonyDelta {
    const delta = { reasoning: this.reasoning, ...this.collector.take() };
    this.reasoning = "";
    return delta;
  }

  private readMark(mark: string): void {
    if (this.part === "text" && this.isFormed && this.isAnswer) {
      if (this.marks.sign !== "" && ENDS.has(mark)) this.ending += mark;
      else this.say(mark);
      return;
    }
    switch (mark) {
      case START:
        this.beginHeader("role");
        break;
      case CHANNEL:
        // A message's end and the next one's beginning may be missing.
        if (this.part === "text" || this.part === "between") this.beginHeader("channel");
        else this.beginPart("channel");
        break;
      case CONSTRAIN:
        if (this.part === "role" || this.part === "channel") this.beginPart("constraint");
        break;
      case MESSAGE:
        if (this.part === "between") this.beginHeader("role");
        if (this.part !== "text") this.beginText();
        break;
      default:
        this.endText();
        this.part = "between";
    }
  }

  private readText(given: string): void {
    const { sign, strays } = this.marks;
    const text = sign === "" ? given : given.replace(strays, "");
    if (text === "") return;
    switch (this.part) {
      case "text":
        this.say(text);
        break;
      case "between":
        if (text.trim() !== "") this.beginUnheaded(text.trimStart());
        break;
      default: {
        this.piece += text;
        const isShort = this.header.length + this.piece.length <= MAX_HEADER;
        const isHeader = isShort && (this.part !== "role" || this.roleToCome.test(this.piece));
        if (!isHeader) this.beginUnheaded(this.piece);
      }
    }
  }

  private beginHeader(part: "role" | "channel"): void {
    this.endText();
    this.header = "";
    this.channel = "";
    this.piece = "";
    this.part = part;
    this.roleToCome = ROLE_TO_COME;
  }

  private beginPart(part: "channel" | "constraint"): void {
    this.endPart();
    this.part = part;
  }

  private endPart(): void {
    if (this.part === "channel") this.channel = /^\s*(\w*)/.exec(this.piece)![1]!;
    this.header += ` ${this.piece}`;
    this.piece = "";
  }

  private beginText(): void {
    this.endPart();
    const recipient = /\sto=(\S+)/.exec(this.header)?.[1];
    this.part = "text";
    this.isNew = true;
    this.callee = recipient === undefined ? null : this.functionOf(recipient);
    if (this.callee !== null) this.kind = "call";
    else this.kind = this.channel === "analysis" ? "reasoning" : "content";
    this.isAnswer = this.kind === "content";
  }

  private beginUnheaded(text: string): void {
    this.header = "";
    this.channel = "";
    this.piece = "";
    this.beginText();
    this.say(text);
  }

  /** null: it is none that may be called. */
  private functionOf(recipient: string): string | null {
    const { offered } = this;
    if (offered === "none") return null;
    const name = recipient.startsWith(NAMESPACE) ? recipient.slice(NAMESPACE.length) : null;
    if (offered === null) return name;
    return [name, recipient].find((one) => one !== null && offered.has(one)) ?? null;
  }

  private say(text: string): void {
    if (this.kind === "call") {
      this.readCall(text);
      return;
    }
    if (this.kind === "spent") {
      // As after the calls of others, stray brackets are forgiven.
      const rest = text.replace(/^[\s}\]]+/, "");
      if (rest === "") return;
      this.kind = "content";
      this.say(rest);
      return;
    }
    const told = this.lineBreak() + this.ending + text;
    this.ending = "";
    this.hasTold[this.kind] = true;
    if (this.kind === "content") this.collector.addContent(told);
    else this.reasoning += told;
  }

  /** What stands before more of the message's text. */
  private lineBreak(): string {
    const breaks = this.isNew && this.hasTold[this.kind === "reasoning" ? "reasoning" : "content"];
    this.isNew = false;
    return breaks ? BREAK : "";
  }

  private readCall(text: string): void {
    let given = text;
    if (this.callee !== null) {
      given = text.trimStart();
      if (given === "") return;
      this.collector.beginCall(this.lineBreak(), new NamedCallReader(this.callee));
      this.callee = null;
    }
    const { state, rest } = this.collector.readCall(given);
    if (state === "reading") return;
    this.kind = state === "call" ? "spent" : "content";
    this.isNew = state !== "content";
    if (state === "content") this.hasTold.content = true;
    if (rest !== "") this.say(rest);
  }

  private endText(): void {
    if (this.part !== "text" || this.kind !== "call" || this.callee !== null) return;
    if (this.collector.breakOff() === "content") this.hasTold.content = true;
    this.kind = "content";
  }
}

const NAMESPACE = "functions.";

/** How marks are found in a text. */
interface Marks {
  sign: string;
  pattern: RegExp;
  /** Signs before other tokens. */
  strays: RegExp;
  texts: readonly string[];
}

function signedMarks(sign: string): Marks {
  const pattern = new RegExp(`${sign}<\\|(?:start|channel|constrain|message|end|call|return)\\|>`, "g");
  const strays = new RegExp(`${sign}(?![\\udc00-\\udfff])`, "g");
  return { sign, pattern, strays, texts: HARMONY_MARKS.map((mark) => sign + mark) };
}

const SPELLED_MARKS = signedMarks("");
