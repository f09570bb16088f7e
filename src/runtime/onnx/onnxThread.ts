// A graph in its thread, as the main thread sees it.

import type { Worker } from "node:worker_threads";
import { ClosedError, ModelFileError, UnavailableError, ValidationError } from "../../errors.js";
import { startThread } from "../../thread.js";
import type { SessionOptions } from "./openSession.js";
import type { TaskFailure, TaskReply, Tasks } from "./threadTasks.js";

interface Waiting {
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

/** It keeps the process alive only while it is asked something. */
export class OnnxThread<T extends Tasks> {
  private readonly worker: Worker;
  private readonly waiting = new Map<number, Waiting>();
  private requests = 0;
  /** Why it answers no more. */
  private ended: Error | null = null;

  /** `program` is that of the thread, as `startThread` takes it. */
  constructor(
    program: string,
    private readonly data: SessionOptions,
  ) {
    this.worker = startThread(program, { workerData: data });
    this.worker.unref();
    this.worker.on("message", (reply: TaskReply) => this.settle(reply));
    this.worker.on("error", (error) => this.end(this.failed(error.message)));
    this.worker.on("exit", (code) => this.end(this.failed(`its thread ended with code ${code}`)));
  }

  /** Answers come in the order of what was asked. */
  ask<K extends keyof T & string>(kind: K, task: T[K]["task"]): Promise<T[K]["answer"]> {
    if (this.ended !== null) return Promise.reject(this.ended);
    const id = this.requests++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as Waiting["resolve"], reject });
      if (this.waiting.size === 1) this.worker.ref();
      this.worker.postMessage({ id, kind, task });
    });
  }

  /** What is under way ends with ClosedError; memory goes when the run in progress has ended. */
  close(): void {
    if (this.ended !== null) return;
    this.worker.postMessage({ id: -1, kind: "close", task: {} });
    this.end(new ClosedError("the model has been closed"));
  }

  private settle(reply: TaskReply): void {
    const waiting = this.waiting.get(reply.id);
    if (!waiting) return;
    this.waiting.delete(reply.id);
    if (this.waiting.size === 0) this.worker.unref();
    if ("answer" in reply) waiting.resolve(reply.answer);
    else waiting.reject(this.errorOf(reply.failure));
  }

  private end(error: Error): void {
    this.ended ??= error;
    for (const { reject } of this.waiting.values()) reject(this.ended);
    this.waiting.clear();
    this.worker.unref();
  }

  private errorOf({ kind, message }: TaskFailure): Error {
    switch (kind) {
      case "missing":
        return new UnavailableError(
          `ONNX models need the package onnxruntime-node, which cannot be loaded: ${message}`,
          {
            code: "onnxruntime_missing",
            hint: "npm install onnxruntime-node",
          },
        );
      case "provider":
        return new ValidationError([
          { loc: ["options", "onnx", "executionProvider"], msg: `ONNX Runtime here ${message}`, type: "value_error" },
        ]);
      case "failed":
        return this.failed(message);
    }
  }

  private failed(message: string): ModelFileError {
    return new ModelFileError(this.data.file, `ONNX Runtime cannot run it: ${message}`);
  }
}
