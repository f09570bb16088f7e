// Supervised data: one conversation per line, or a JSON array of them.

import { realpath } from "node:fs/promises";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { AnnealError, ModelFileError, systemReason, ValidationError } from "../errors.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { isObject, jsonReason, parseJsonText } from "../json.js";
import { stringifyAsync } from "../jsonPieces.js";
import { openRegularFile } from "../regularFile.js";
import { CONVERSATION_NUMBERS } from "../schemas/exactNumbers.js";
import { streamFile } from "../store/durableFiles.js";
import { type ConversationError, contentText } from "../text/index.js";
import type { TrainingMessage } from "../types/training.js";
import type { TrajectoryMessage, TrajectoryTool } from "../types/trajectories.js";
import { linesInChunks } from "./fileLines.js";
import { type JsonRecord, jsonRecords, RecordError } from "./jsonRecords.js";

export interface SftExample {
  /** 1-based, for messages about it. */
  line: number;
  messages: TrainingMessage[];
  tools: TrajectoryTool[] | null;
}

/** A line that cannot be used: names file and line. */
export class TrainingDataError extends AnnealError {
  constructor(file: string, line: number | null, message: string, cause?: unknown) {
    super(`${file}${line === null ? "" : `, line ${line}`}: ${message}`, 422, {
      code: "invalid_training_data",
      param: "training_data_url",
      cause,
    });
  }
}

/** Of one conversation: far more text than any model reads at once. */
const MAX_CONVERSATION_BYTES = 64 * 2 ** 20;

const ROLES = new Set(["system", "developer", "user", "assistant", "tool", "function"]);

/**
 * Copies the data into `file`, whole or not at all, so that a job goes on with the data it began with. `name` is what the
 * source is called in messages. @throws TrainingDataError when it cannot be read.
 */
export async function snapshotData(source: string, name: string, file: string, signal?: AbortSignal): Promise<void> {
  try {
    await streamFile(file, readSource(source, name, signal));
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof ModelFileError) throw new TrainingDataError(name, null, error.reason, error);
    if (error instanceof AnnealError) throw error;
    // What fetch throws says why only in its cause.
    const { cause } = error as Error;
    const why = systemReason(cause instanceof Error && cause.message !== "" ? cause : (error as Error));
    throw new TrainingDataError(name, null, `cannot be read (${why})`, error);
  }
}

/** The source's bytes. Opened inside the generator, so that nothing can fail before its reader listens. */
async function* readSource(source: string, name: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  signal?.throwIfAborted();
  const stream = await openSource(source, name, signal);
  try {
    for await (const chunk of stream) {
      signal?.throwIfAborted();
      yield chunk as Uint8Array;
    }
  } finally {
    stream.destroy();
  }
}

/** Whether data is to be fetched from another machine. */
export const isRemote = (source: string): boolean => /^https?:/i.test(source);

async function openSource(source: string, name: string, signal?: AbortSignal): Promise<Readable> {
  if (!isRemote(source)) {
    // It may have been replaced since the job was asked for.
    if ((await realpath(source)) !== source) {
      throw new TrainingDataError(name, null, "is no longer the file that was asked for");
    }
    return (await openRegularFile(source)).createReadStream();
  }
  const response = await fetch(source, { signal, redirect: "error" });
  if (!response.ok || response.body === null) {
    throw new TrainingDataError(name, null, `the server answered ${response.status}`);
  }
  return Readable.fromWeb(response.body as ReadableStream);
}

/** Reads conversations in order. @throws TrainingDataError for the first record that is no conversation, and for none at all. */
export async function* readExamples(file: string, name: string): AsyncGenerator<SftExample> {
  const utf8 = new TextDecoder("utf-8", { fatal: true });
  let isFirst = true;
  for await (const { line, bytes } of conversationRecords(file, name)) {
    let text: string;
    try {
      text = utf8.decode(bytes);
    } catch (error) {
      throw new TrainingDataError(name, line, "is not UTF-8", error);
    }
    yield parseExample(text, name, line, isFirst);
    isFirst = false;
  }
  if (isFirst) throw new TrainingDataError(name, null, "holds no conversation");
}

async function* conversationRecords(file: string, name: string): AsyncGenerator<JsonRecord> {
  try {
    yield* jsonRecords(file, MAX_CONVERSATION_BYTES);
  } catch (error) {
    throw error instanceof RecordError ? new TrainingDataError(name, error.line, error.message, error) : error;
  }
}

/** Conversations that a request holds itself, as the lines of a file. @throws ValidationError for the first that is none. */
export function conversationLines(data: readonly unknown[]): AsyncGenerator<Uint8Array> {
  return linesInChunks(checkedLines(data));
}

async function* checkedLines(data: readonly unknown[]): AsyncGenerator<string> {
  if (data.length === 0) throw ValidationError.at("data", "holds no conversation");
  for (const [i, value] of data.entries()) {
    const refuse = (message: string) => ValidationError.at(`data.${i}`, message);
    checkConversation(value, refuse);
    const line = await stringifyAsync(value);
    if (line.length > MAX_CONVERSATION_BYTES / 4 && Buffer.byteLength(line) > MAX_CONVERSATION_BYTES) {
      throw refuse(`is longer than ${MAX_CONVERSATION_BYTES} bytes`);
    }
    yield `${line}\n`;
    while (shouldYield()) await yieldToEventLoop();
  }
}

/** How many `readExamples` would give. @throws TrainingDataError when the file cannot be read. */
export async function countExamples(file: string, name: string): Promise<number> {
  let count = 0;
  try {
    for await (const _ of conversationRecords(file, name)) count += 1;
  } catch (error) {
    if (error instanceof TrainingDataError) throw error;
    const reason = error instanceof ModelFileError ? error.reason : `cannot be read (${systemReason(error as Error)})`;
    throw new TrainingDataError(name, null, reason, error);
  }
  return count;
}

const EXAMPLE = '{"messages":[{"role":"user","content":"..."},{"role":"assistant","content":"..."}]}';

/** In which other programs' data holds what is said; fields of other names are not quoted, for they may be content. */
const OTHER_FIELDS = [
  "conversations",
  "conversation",
  "prompt",
  "completion",
  "instruction",
  "input",
  "output",
  "response",
  "text",
];

function parseExample(text: string, file: string, line: number, isFirst: boolean): SftExample {
  const refuse = (message: string, cause?: unknown) => new TrainingDataError(file, line, message, cause);
  let value: unknown;
  try {
    value = parseJsonText(text, CONVERSATION_NUMBERS);
  } catch (error) {
    const wanted = `; a file of conversations has one on each line, ${EXAMPLE}, or is a JSON array of them`;
    throw refuse(`no valid JSON (${jsonReason(error)})${isFirst ? wanted : ""}`, error);
  }
  return { line, ...checkConversation(value, refuse) };
}

/** @throws what `refuse` makes of the fault. */
function checkConversation(value: unknown, refuse: (message: string) => Error): Omit<SftExample, "line"> {
  const { messages, tools } = (value ?? {}) as { messages?: unknown; tools?: unknown };
  if (messages === undefined && isObject(value)) {
    const others = OTHER_FIELDS.filter((field) => Object.hasOwn(value, field)).map((field) => `"${field}"`);
    const found = others.length > 0 ? ` (there is ${others.join(" and ")})` : "";
    throw refuse(`"messages" is missing${found}; a conversation is ${EXAMPLE}`);
  }
  if (!Array.isArray(messages) || messages.length === 0)
    throw refuse('"messages" must be a list with at least one entry');
  for (const [i, message] of messages.entries()) checkMessage(message, `messages.${i}`, refuse);
  if ((messages.at(-1) as TrajectoryMessage).role !== "assistant") {
    throw refuse("the last message must be the assistant's");
  }
  if (tools != null && !(Array.isArray(tools) && tools.every(isObject)))
    throw refuse('"tools" must be a list of tools');
  return {
    messages: messages as TrainingMessage[],
    tools: (tools as TrajectoryTool[] | null | undefined) ?? null,
  };
}

function checkMessage(value: unknown, path: string, refuse: (message: string) => Error): void {
  if (!isObject(value)) throw refuse(`"${path}" must be a message`);
  const message = value as Partial<TrainingMessage>;
  if (!ROLES.has(message.role as string)) throw refuse(`"${path}.role" must be one of ${[...ROLES].join(", ")}`);
  const { content, weight } = message;
  if (message.role === "assistant" && weight != null && weight !== 0 && weight !== 1) {
    throw refuse(`"${path}.weight" must be 0 (context) or 1 (trained)`);
  }
  try {
    contentText(content, `${path}.content`);
  } catch (error) {
    const { location, reason } = error as ConversationError;
    throw refuse(`"${location}" ${reason}`);
  }
  if (content == null && message.role !== "assistant") throw refuse(`"${path}.content" is missing`);
  if (message.tool_calls == null) return;
  if (!Array.isArray(message.tool_calls)) throw refuse(`"${path}.tool_calls" must be a list`);
  for (const [i, call] of (message.tool_calls as unknown[]).entries()) {
    const named = isObject(call) && isObject(call.function) && typeof call.function.name === "string";
    if (!named) throw refuse(`"${path}.tool_calls.${i}" must be the call of a function`);
  }
}
