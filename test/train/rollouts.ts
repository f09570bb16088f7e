import type { Rollout } from "../../src/types/gather.js";
import type { TrajectoryChoice } from "../../src/types/trajectories.js";

// What the embedded model answers must not matter: replies are cut short, and rewards are drawn.
export const short = { max_tokens: 2 };
export const drawn: Rollout<string> = async ({ chat, scenario, seed }) => {
  await chat(`Say ${scenario}.`, short);
  return Number(seed % 5n);
};
export const choicesOf = (items: object[]) => items.filter((item): item is TrajectoryChoice => "message" in item);
