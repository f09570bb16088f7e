// Trajectory groups that need not be in memory together: read one trajectory after the other, as often as wanted.

import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { parseJsonInTurns } from "../jsonInTurns.js";
import { stringifyInTurns } from "../jsonPieces.js";
import type { Trajectory, TrajectoryGroup } from "../types/trajectories.js";
import { fileLines } from "./fileLines.js";

export type GroupFields = Omit<TrajectoryGroup, "trajectories">;

/** A group begins, without its trajectories; or a trajectory of the group that began last. */
export type GroupEntry = ({ group: GroupFields } | { trajectory: Trajectory }) & {
  /** As JSON. */
  text(): Promise<string>;
};

export interface GroupSource {
  /** From the first on, whenever it is called. Other work of the thread has its turn. */
  entries(): AsyncIterable<GroupEntry>;
}

export function groupsInMemory(groups: readonly TrajectoryGroup[]): GroupSource {
  return {
    async *entries() {
      for (const { trajectories, ...group } of groups) {
        yield { group, text: () => stringifyInTurns(group) };
        for (const trajectory of trajectories) {
          yield { trajectory, text: () => stringifyInTurns(trajectory) };
          while (shouldYield()) await yieldToEventLoop();
        }
      }
    },
  };
}

/** Of each group a line, a list that holds it without its trajectories, and then a line per trajectory. */
export function groupsInFile(file: string): GroupSource {
  return {
    async *entries() {
      for await (const line of fileLines(file)) {
        const value = await parseJsonInTurns(line);
        const text = async (from: number, to: number) => line.toString("utf8", from, to);
        if (Array.isArray(value)) {
          yield { group: value[0] as GroupFields, text: () => text(1, line.length - 1) };
        } else {
          yield { trajectory: value as Trajectory, text: () => text(0, line.length) };
        }
        while (shouldYield()) await yieldToEventLoop();
      }
    },
  };
}

/** The lines of such a file. */
export function* groupLines(groups: readonly TrajectoryGroup[]): Generator<string> {
  for (const { trajectories, ...group } of groups) {
    yield `${JSON.stringify([group])}\n`;
    for (const trajectory of trajectories) yield `${JSON.stringify(trajectory)}\n`;
  }
}
