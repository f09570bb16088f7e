// The thread that encodes and renders long texts: the same tokenizer, read from the same folder, and the same templates.

import { readlinkSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { compileChatTemplate } from "../jinja/chatTemplate.js";
import { TemplateError } from "../jinja/errors.js";
import { renderConversation } from "./conversation.js";
import { ConversationError } from "./errors.js";
import {
  type EncodingTask,
  keptTokens,
  type RenderingTask,
  type TextAnswer,
  type TextTask,
  type TextThreadData,
  type ThreadStart,
} from "./textThread.js";
import { loadUntriedTokenizer, type Tokenizer } from "./tokenizer.js";

let sameTokenizer: Promise<Tokenizer> | null = null;

async function loadSameTokenizer({ folder, hash }: TextThreadData): Promise<Tokenizer> {
  const tokenizer = await loadUntriedTokenizer(folder);
  if (tokenizer.hash === hash) return tokenizer;
  throw new Error(`the tokenizer in ${folder} has changed since it was loaded; open the engine again`);
}

async function encode({ text, addSpecialTokens, keep }: EncodingTask): Promise<TextAnswer> {
  // What keeps the folder from being read may pass, such as a file system of another machine that is away for a while.
  sameTokenizer ??= loadSameTokenizer(workerData as TextThreadData).catch((error: unknown) => {
    sameTokenizer = null;
    throw error;
  });
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
