// A constraint as the program that is compiled for a vocabulary: read here where that is quick, else in a thread of its own.

import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { GrammarError } from "../grammar/grammarError.js";
import { encodeGrammar } from "../grammar/ir.js";
import { TooMuchWork } from "../grammar/workBudget.js";
import { Semaphore } from "../semaphore.js";
import { startThread } from "../thread.js";
import { type ConstraintSetting, constraintGrammar } from "./constraint.js";
import { readConstraint } from "./constraintText.js";
import type { ProgramAnswer, ProgramTask } from "./programWorker.js";

/** What is read at once: some tens of milliseconds. */
const MAX_INLINE_STEPS = 500_000;
/** Of a constraint's text: longer ones are more work in any case. */
const MAX_INLINE_CHARACTERS = 200_000;

/** Threads that read at once. */
const threads = new Semaphore(2);

/** `text`: as `constraintText` gives it. An abort ends the thread. @throws GrammarError, the signal's reason */
export async function constraintProgram(
  text: string,
  setting: ConstraintSetting,
  signal?: AbortSignal,
): Promise<Int32Array> {
  while (shouldYield()) await yieldToEventLoop();
  signal?.throwIfAborted();
  try {
    if (text.length <= MAX_INLINE_CHARACTERS) {
      return encodeGrammar(constraintGrammar(readConstraint(text), setting, MAX_INLINE_STEPS));
    }
  } catch (error) {
    if (!(error instanceof TooMuchWork)) throw error;
  }
  const release = await threads.acquire(signal);
  try {
    return await readInThread({ text, setting }, signal);
  } finally {
    release();
  }
}

function readInThread(task: ProgramTask, signal: AbortSignal | undefined): Promise<Int32Array> {
  return new Promise((resolve, reject) => {
    const worker = startThread("structuredOutputs/programWorker", { workerData: task });
    const stop = () => {
      reject(signal!.reason);
      void worker.terminate();
    };
    signal?.addEventListener("abort", stop, { once: true });
    worker.once("message", (answer: ProgramAnswer) => {
      if ("program" in answer) resolve(answer.program);
      else reject(new GrammarError(answer.message, answer.path));
    });
    worker.once("error", reject);
    worker.once("exit", () => {
      signal?.removeEventListener("abort", stop);
      reject(new GrammarError("is too large to compile: simplify it"));
    });
  });
}
