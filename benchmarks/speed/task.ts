/** The task of `anneal demo`, learnt by programs beside each other: a word is spelled backwards, and nothing else said. */
import { heldOutWords } from "../../src/cli/demoWords.js";

export interface LoopWork {
  kind: "loop";
  steps: number;
  /** Words in a step. */
  groups: number;
  /** Completions of each. */
  group: number;
  learningRate: number;
}

export const loop: LoopWork = { kind: "loop", steps: 20, groups: 12, group: 8, learningRate: 2.5e-4 };

export const taskOf = (word: string): string => `Spell "${word}" backwards, one word.`;
export const rewardOf = (word: string, reply: string): number =>
  reply.trim() === [...word].reverse().join("") ? 1 : 0;
export const heldOut = heldOutWords.map((word) => ({ word }));
