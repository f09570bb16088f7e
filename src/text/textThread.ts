// Encoding and rendering of long texts in a thread of its own, so that whoever waits for it waits alone.

import { readFileSync } from "node:fs";
import type { Worker } from "node:worker_threads";
import { ClosedError, UnavailableError } from "../errors.js";
import { TemplateError, type TemplateErrorKind } from "../jinja/errors.js";
import { startThread } from "../thread.js";
import type { Conversation } from "./conversation.js";
import { ConversationError } from "./errors.js";

/** A part of a text's ids: so many of the first or of the last. */
export interface KeptTokens {
  side: "first" | "last";
  count: number;
}

/** `keep` null: all. */
export function keptTokens(ids: number[], keep: KeptTokens | null): number[] {
  if (keep === null) return ids;
  return keep.side === "first" ? ids.slice(0, keep.count) : ids.slice(-keep.count);
}

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

interface Job {
  task: TextTask;
  /** Roughly in proportion to its work: UTF-16 units, or messages as if each had a hundred. */
  size: number;
  resolve(answer: TextAnswer): void;
  reject(error: unknown): void;
}

/** Memory of the thread's JavaScript: what would take more ends the thread, not the process. */
const MAX_HEAP_MEGABYTES = 2_048;

/** A text of this size is worth a new thread when nobody waits for it any more: seconds of work. */
const ABANDONED_SIZE = 1_000_000;

/** Started by its first task. It does not keep the process alive while it has nothing to do. */
export class TextThread {
  private worker: Worker | null = null;
  private readonly waiting: Job[] = [];
  private running: Job | null = null;
  private closed = false;
  /** Of the process when the thread started, in microseconds. */
  private startedAt: NodeJS.CpuUsage | undefined;
  private times: string | null = null;

  constructor(private readonly tokenizer: TextThreadData) {}

  /**
   * Token ids of a text; shorter ones go first. An abort rejects with the signal's reason; a short text that is being encoded
   * then is finished for nobody, a long one ends its thread. Throws ClosedError after `close`, UnavailableError when the thread fails.
   */
  async encode(task: Omit<EncodingTask, "kind">, signal?: AbortSignal): Promise<Int32Array> {
    const answer = await this.run({ ...task, kind: "encode" }, task.text.length, signal);
    if ("ids" in answer) return answer.ids;
    throw failed("encoded", "failure" in answer ? answer.failure : "no ids came back");
  }

  /** What `renderConversation` gives and throws, in the same order and with the same errors as `encode`. */
  async render(task: Omit<RenderingTask, "kind">, signal?: AbortSignal): Promise<string> {
    const size = 100 * task.conversation.messages.length;
    const answer = await this.run({ ...task, kind: "render" }, size, signal);
    if ("text" in answer) return answer.text;
    if ("fault" in answer) throw errorOf(answer.fault);
    throw failed("rendered", "failure" in answer ? answer.failure : "no text came back");
  }

  /**
   * How long the thread has been on a processor, in seconds; 0 before it runs. Where the operating system does not tell
   * that of a thread, the time of the whole process since then, which is no less.
   */
  cpuSeconds(): number {
    if (this.worker === null) return 0;
    try {
      if (this.times !== null) return processorSeconds(readFileSync(this.times, "latin1"));
    } catch {
      // The thread is gone, or its times are not to be seen.
    }
    const { user, system } = process.cpuUsage(this.startedAt);
    return (user + system) / 1e6;
  }

  private run(task: TextTask, size: number, signal?: AbortSignal): Promise<TextAnswer> {
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      if (this.closed) return reject(closedError());
      const job: Job = {
        task,
        size,
        resolve(answer) {
          signal?.removeEventListener("abort", left);
          resolve(answer);
        },
        reject(error) {
          signal?.removeEventListener("abort", left);
          reject(error);
        },
      };
      const left = () => {
        const at = this.waiting.indexOf(job);
        if (at >= 0) this.waiting.splice(at, 1);
        reject(signal!.reason);
        if (this.running === job && size >= ABANDONED_SIZE) this.abandon();
      };
      signal?.addEventListener("abort", left, { once: true });
      this.waiting.push(job);
      this.next();
    });
  }

  /** Ends the thread; texts on their way reject with ClosedError. */
  async close(): Promise<void> {
    this.closed = true;
    this.fail(closedError());
    for (const job of this.waiting.splice(0)) job.reject(closedError());
    await this.worker?.terminate();
    this.worker = null;
  }

  private next(): void {
    if (this.running !== null || this.closed) return;
    if (this.waiting.length === 0) {
      this.worker?.unref();
      return;
    }
    let shortest = 0;
    for (const [i, { size }] of this.waiting.entries()) if (size < this.waiting[shortest]!.size) shortest = i;
    const job = this.waiting.splice(shortest, 1)[0]!;
    this.running = job;
    this.worker ??= this.start();
    this.worker.ref();
    try {
      this.worker.postMessage(job.task);
    } catch (error) {
      // What cannot be copied is no JSON: a function, say.
      this.fail(new ConversationError("chat_template_kwargs", `holds what is no JSON (${(error as Error).message})`));
      this.next();
    }
  }

  /** Ends the thread, which works for nobody; the next text gets another. */
  private abandon(): void {
    void this.worker?.terminate();
    this.worker = null;
    this.running = null;
    this.next();
  }

  private start(): Worker {
    this.times = null;
    this.startedAt = process.cpuUsage();
    const worker = thread(this.tokenizer);
    worker.on("message", (answer: TextAnswer | ThreadStart) => {
      if (this.worker !== worker) return;
      if ("times" in answer) {
        this.times = answer.times;
        return;
      }
      const job = this.running;
      this.running = null;
      job?.resolve(answer);
      this.next();
    });
    worker.on("error", (error) => this.ended(worker, error));
    worker.on("exit", (code) => this.ended(worker, new Error(`it ended with code ${code}`)));
    return worker;
  }

  /** A thread that has died takes its text with it; the next text gets another thread. */
  private ended(worker: Worker, error: Error): void {
    if (this.worker !== worker) return;
    this.worker = null;
    this.fail(failed("read or written", error.message, error));
    this.next();
  }

  private fail(error: unknown): void {
    const job = this.running;
    this.running = null;
    job?.reject(error);
  }
}

/** Of Linux's clock, in which it tells times to every program. */
const TICKS_PER_SECOND = 100;

/** Of a thread's `stat`: fields 14 and 15, counted from 1; the second one is a name in brackets. */
function processorSeconds(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

function thread(workerData: TextThreadData): Worker {
  return startThread("text/textWorker", { workerData, resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MEGABYTES } });
}

function errorOf(fault: RenderingFault): Error {
  if (fault.name === "TemplateError") return new TemplateError(fault.kind, fault.reason, fault.line);
  return new ConversationError(fault.location, fault.reason);
}

function closedError(): ClosedError {
  return new ClosedError("the model has been closed");
}

function failed(done: string, message: string, cause?: Error): UnavailableError {
  return new UnavailableError(`the text could not be ${done}: ${message}`, { code: "encoding_failed", cause });
}
