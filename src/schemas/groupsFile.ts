// Bodies with trajectory groups that are too large for the thread that everything shares: a thread of their own reads them.

import { ValidationError } from "../errors.js";
import { Semaphore } from "../semaphore.js";
import { startThread } from "../thread.js";
import type { GroupsAnswer, GroupsTask } from "./groupsFileWorker.js";

/** One at a time: its thread holds the whole body. */
const threads = new Semaphore(1);

/** MiB of the thread's heap: a trajectory at its limits takes less. */
const HEAP = 1536;

/**
 * Reads the body in the file `body` and writes its groups, checked, to the new file `groups`: of each group one line, a list
 * with the group without its trajectories, and then one line per trajectory.
 * @returns the body's other `fields`, which are not checked, with no groups.
 * @throws ValidationError; the signal's reason
 */
export async function readGroupsBody(task: GroupsTask, signal?: AbortSignal): Promise<Record<string, unknown>> {
  const release = await threads.acquire(signal);
  try {
    const answer = await readInThread(task, signal);
    if ("head" in answer) return answer.head;
    const isJson = answer.issues[0]?.type !== "json_invalid";
    throw new ValidationError(answer.issues, isJson ? {} : { code: "json_invalid" });
  } finally {
    release();
  }
}

function readInThread(task: GroupsTask, signal: AbortSignal | undefined): Promise<GroupsAnswer> {
  return new Promise((resolve, reject) => {
    const resourceLimits = { maxOldGenerationSizeMb: HEAP };
    const worker = startThread("schemas/groupsFileWorker", { workerData: task, resourceLimits });
    const stop = () => void worker.terminate();
    signal?.addEventListener("abort", stop, { once: true });
    let answer: GroupsAnswer | undefined;
    worker.once("message", (message: GroupsAnswer) => {
      answer = message;
    });
    worker.once("error", reject);
    // Only then has its memory been given back.
    worker.once("exit", () => {
      signal?.removeEventListener("abort", stop);
      if (answer) resolve(answer);
      else reject(signal?.reason ?? new Error("the thread ended before it answered"));
    });
  });
}
