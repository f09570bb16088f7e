// The thread that reads one constraint that is much work.

import { parentPort, workerData } from "node:worker_threads";
import { GrammarError } from "../grammar/grammarError.js";
import { encodeGrammar } from "../grammar/ir.js";
import { type ConstraintSetting, constraintGrammar } from "./constraint.js";
import { readConstraint } from "./constraintText.js";

export interface ProgramTask {
  /** As `constraintText` gives it. */
  text: string;
  setting: ConstraintSetting;
}

export type ProgramAnswer = { program: Int32Array } | { message: string; path: readonly string[] };

function read({ text, setting }: ProgramTask): ProgramAnswer {
  try {
    return { program: encodeGrammar(constraintGrammar(readConstraint(text), setting)) };
  } catch (error) {
    if (error instanceof GrammarError) return { message: error.message, path: error.path };
    throw error;
  }
}

parentPort?.postMessage(read(workerData as ProgramTask));
