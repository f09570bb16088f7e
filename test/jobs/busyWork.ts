// What an engine that is made to be killed is asked for, and what it says of it.

import type { ExperimentalConfig } from "../../src/types/training.js";
import { madeUpGroups } from "./jobHost.js";

/** A line of the process: said only once the engine has acknowledged it, `deleting` before it is asked. */
export type Acknowledged =
  | { type: "ready" }
  | { type: "model" | "deleting" | "deleted"; model: string }
  | { type: "job"; job: string; model: string }
  | { type: "artifact"; url: string }
  | { type: "log"; model: string; mark: number }
  | { type: "step deleted"; model: string; step: number }
  /** Of a folder beside the home, which is whole from now on. */
  | { type: "export" | "backup"; folder: string };

export const JOBS_PER_MODEL = 6;

/** Step 1 to JOBS_PER_MODEL of every model: RL and SFT in turn, so that moments are kept, cleared and made again. */
export function jobRequest(number: number):
  | { kind: "sft" }
  | {
      kind: "rl";
      params: { trajectory_groups: ReturnType<typeof madeUpGroups>; experimental_config: ExperimentalConfig };
    } {
  if (number % 3 === 2) return { kind: "sft" };
  const experimental_config = {
    learning_rate: 1e-3,
    ...(number % 2 ? { precalculate_logprobs: true, kl_penalty_coef: 0.1 } : {}),
  };
  return { kind: "rl", params: { trajectory_groups: madeUpGroups(4, number + 1), experimental_config } };
}

export function sftLines(number: number): string {
  const words = ["planet", "river", "stone", "cloud", "window", "garden", "letter"];
  return words
    .map((word, i) => {
      const content = `${word} ${number} ${i}`;
      return JSON.stringify({
        messages: [
          { role: "user", content: `Say "${word}".` },
          { role: "assistant", content },
        ],
      });
    })
    .join("\n");
}
