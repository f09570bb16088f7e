// What threads that run graphs are asked, and how they answer.

import { parentPort } from "node:worker_threads";

/** What a thread does by name: what it is given, and what it answers. */
export type Tasks = Record<string, { task: object; answer: unknown }>;

export interface TaskRequest {
  id: number;
  kind: string;
  task: unknown;
}

/** Why there is no answer, in parts that can be sent. */
export interface TaskFailure {
  /** "missing": onnxruntime-node is not there; "provider": the execution provider is not. */
  kind: "missing" | "provider" | "failed";
  message: string;
}

export type TaskReply = { id: number; answer: unknown } | { id: number; failure: TaskFailure };

export class TaskError extends Error {
  constructor(
    readonly kind: TaskFailure["kind"],
    message: string,
  ) {
    super(message);
  }
}

export type TaskHandlers<T extends Tasks> = { [K in keyof T]: (task: T[K]["task"]) => Promise<T[K]["answer"]> };

/**
 * Answers tasks in the order in which they come; after one of the kind "close" the thread ends. `moved` are the arrays of an answer
 * that need not be copied.
 */
export function answerTasks<T extends Tasks>(
  handlers: TaskHandlers<T>,
  moved: (kind: keyof T, answer: unknown) => Float32Array[],
): void {
  const port = parentPort!;
  let queue: Promise<void> = Promise.resolve();
  const replyTo = async ({ id, kind, task }: TaskRequest): Promise<TaskReply> => {
    try {
      return { id, answer: await handlers[kind]!(task as never) };
    } catch (error) {
      return {
        id,
        failure: { kind: error instanceof TaskError ? error.kind : "failed", message: (error as Error).message },
      };
    }
  };
  port.on("message", (request: TaskRequest) => {
    queue = queue.then(async () => {
      const reply = await replyTo(request);
      const arrays = "answer" in reply ? moved(request.kind, reply.answer) : [];
      port.postMessage(reply, [...new Set(arrays.map(({ buffer }) => buffer as ArrayBuffer))]);
      if (request.kind === "close") port.close();
    });
  });
}
