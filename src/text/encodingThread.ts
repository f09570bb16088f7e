// Encoding of long texts in a thread of its own, so that whoever waits for it waits alone.

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { ClosedError, UnavailableError } from "../errors.js";
import { program } from "../packageFiles.js";
import type { EncodedMessage, EncodingTask, EncodingThreadData } from "./encodingWorker.js";

interface Job {
  task: EncodingTask;
  resolve(ids: Int32Array): void;
  reject(error: unknown): void;
}

/** One thread per tokenizer, started by its first text. It does not keep the process alive while it has nothing to do. */
export class EncodingThread {
  private worker: Worker | null = null;
  private readonly waiting: Job[] = [];
  private running: Job | null = null;
  private closed = false;

  constructor(private readonly tokenizer: EncodingThreadData) {}

  /**
   * Token ids of a text; shorter ones go first. An abort rejects with the signal's reason; a text that is being encoded
   * then is finished for nobody. Throws ClosedError after `close`, UnavailableError when the thread fails.
   */
  encode(task: EncodingTask, signal?: AbortSignal): Promise<Int32Array> {
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      if (this.closed) return reject(closedError());
      const job: Job = {
        task,
        resolve(ids) {
          signal?.removeEventListener("abort", left);
          resolve(ids);
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
    for (const [i, { task }] of this.waiting.entries()) {
      if (task.text.length < this.waiting[shortest]!.task.text.length) shortest = i;
    }
    const job = this.waiting.splice(shortest, 1)[0]!;
    this.running = job;
    this.worker ??= this.start();
    this.worker.ref();
    this.worker.postMessage(job.task);
  }

  private start(): Worker {
    const worker = thread(this.tokenizer);
    worker.on("message", ({ ids, failure }: EncodedMessage) => {
      const job = this.running;
      this.running = null;
      if (failure !== null) job?.reject(failed(failure));
      else job?.resolve(ids);
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
    this.fail(failed(error.message, error));
    this.next();
  }

  private fail(error: unknown): void {
    const job = this.running;
    this.running = null;
    job?.reject(error);
  }
}

function thread(workerData: EncodingThreadData): Worker {
  const file = program("text/encodingWorker");
  if (!file.pathname.endsWith(".ts")) return new Worker(file, { workerData });
  // Run from its sources: a thread inherits nothing that would read TypeScript.
  const tsx = createRequire(import.meta.url).resolve("tsx/cjs/api");
  const start = `require(${JSON.stringify(tsx)}).register(); require(${JSON.stringify(fileURLToPath(file))});`;
  return new Worker(start, { eval: true, workerData });
}

function closedError(): ClosedError {
  return new ClosedError("the model has been closed");
}

function failed(message: string, cause?: Error): UnavailableError {
  return new UnavailableError(`the text could not be encoded: ${message}`, { code: "encoding_failed", cause });
}
