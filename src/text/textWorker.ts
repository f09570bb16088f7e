// The thread that encodes and renders long texts: the same tokenizer, read from the same folder, and the same templates.

import { readlinkSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { compileChatTemplate } from "../jinja/chatTemplate.js";
import { TemplateError, type TemplateErrorKind } from "../jinja/errors.js";
import { type Conversation, renderConversation } from "./conversation.js";
import { ConversationError } from "./errors.js";
import { type KeptTokens, keptTokens, loadUntriedTokenizer, type Tokenizer } from "./tokenizer.js";

/** The tokenizer to be: its folder, and the hash of its files when they were first read. */
export interface TextThreadData {
  folder: string;
  hash: string;
}

export interface EncodingTask {
  kind: "encode";
  text: string;
  addSpecialTokens: boolean;
  /** null: all. */
  keep: KeptTokens | null;
}

export interface RenderingTask {
  kind: "render";
  /** Of the template. */
  source: string;
  conversation: Conversation;
}

export type TextTask = EncodingTask | RenderingTask;

/** An error that is the fault of what was to be rendered, in parts that can be sent. */
export type RenderingFault =
  | { name: "TemplateError"; kind: TemplateErrorKind; reason: string; line: number | undefined }
  | { name: "ConversationError"; location: string; reason: string };

/** What a thread says of itself before it answers: where the operating system tells its times, if it does. */
export interface ThreadStart {
  times: string | null;
}

export type TextAnswer =
  | { ids: Int32Array }
  | { text: string }
  | { fault: RenderingFault }
  /** Why there is nothing, when it is nobody's fault. */
  | { failure: string };

let sameTokenizer: Promise<Tokenizer> | null = null;

async function loadSameTokenizer({ folder, hash }: TextThreadData): Promise<Tokenizer> {
  const tokenizer = await loadUntriedTokenizer(folder);
  if (tokenizer.hash === hash) return tokenizer;
  throw new Error(`the tokenizer in ${folder} has changed since it was loaded; open the engine again`);
}

async function encode({ text, addSpecialTokens, keep }: EncodingTask): Promise<TextAnswer> {
  sameTokenizer ??= loadSameTokenizer(workerData as TextThreadData);
  const ids = (await sameTokenizer).encode(text, { addSpecialTokens });
  return { ids: Int32Array.from(keptTokens(ids, keep)) };
}

function render({ source, conversation }: RenderingTask): TextAnswer {
  try {
    return { text: renderConversation(compileChatTemplate(source), conversation) };
  } catch (error) {
    if (error instanceof TemplateError) {
      return { fault: { name: "TemplateError", kind: error.kind, reason: error.reason, line: error.line } };
    }
    if (error instanceof ConversationError) {
      return { fault: { name: "ConversationError", location: error.location, reason: error.reason } };
    }
    throw error;
  }
}

async function answer(task: TextTask): Promise<TextAnswer> {
  try {
    return task.kind === "encode" ? await encode(task) : render(task);
  } catch (error) {
    return { failure: (error as Error).message };
  }
}

/** Linux names the thread that asks. */
function ownTimes(): string | null {
  try {
    return `/proc/${readlinkSync("/proc/thread-self")}/stat`;
  } catch {
    return null;
  }
}

if (parentPort !== null) {
  const port = parentPort;
  port.postMessage({ times: ownTimes() } satisfies ThreadStart);
  port.on("message", async (task: TextTask) => {
    const result = await answer(task);
    port.postMessage(result, "ids" in result ? [result.ids.buffer as ArrayBuffer] : []);
  });
}
