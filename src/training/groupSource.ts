// Trajectory groups that need not be in memory together: read one trajectory after the other, as often as wanted.

import { ValidationError } from "../errors.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { jsonText } from "../json.js";
import { parseJsonAsync } from "../jsonAsync.js";
import { stringifyAsync } from "../jsonPieces.js";
import { MAX_TRAJECTORY } from "../schemas/bounds.js";
import { TRAJECTORY_NUMBERS } from "../schemas/exactNumbers.js";
import type { Trajectory, TrajectoryGroup } from "../types/trajectories.js";
import { fileLines, linesInChunks } from "./fileLines.js";

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

/** A group begins; or a trajectory, the `t`-th of the `g`-th group, and its path in a request. */
export type PlacedEntry = { group: GroupFields } | { trajectory: Trajectory; g: number; t: number; path: string };

export async function* withPlaces(groups: GroupSource): AsyncGenerator<PlacedEntry> {
  let g = -1;
  let t = -1;
  for await (const entry of groups.entries()) {
    if ("group" in entry) {
      g += 1;
      t = -1;
      yield { group: entry.group };
    } else {
      t += 1;
      yield { trajectory: entry.trajectory, g, t, path: `trajectory_groups.${g}.trajectories.${t}` };
    }
  }
}

/** Texts beyond what a body may hold are refused, as in a body. */
export function groupsInMemory(groups: readonly TrajectoryGroup[]): GroupSource {
  return {
    async *entries() {
      for (const [g, { trajectories, ...group }] of groups.entries()) {
        const place = `trajectory_groups.${g}`;
        yield { group, text: () => boundedText(group, place) };
        for (const [t, trajectory] of trajectories.entries()) {
          yield { trajectory, text: () => boundedText(trajectory, `${place}.trajectories.${t}`) };
          while (shouldYield()) await yieldToEventLoop();
        }
      }
    },
  };
}

/** JSON. @throws ValidationError at `place` */
async function boundedText(value: object, place: string): Promise<string> {
  const refuse = (limit: string) => ValidationError.at(place, limit, "too_long");
  const text = await stringifyAsync(value);
  if (text.length > MAX_TRAJECTORY.bytes / 4 && Buffer.byteLength(text) > MAX_TRAJECTORY.bytes) {
    throw refuse(`is longer than ${MAX_TRAJECTORY.bytes} bytes`);
  }
  // A container takes two characters at least.
  if (text.length > 2 * MAX_TRAJECTORY.containers && containersIn(value) > MAX_TRAJECTORY.containers) {
    throw refuse(`holds more than ${MAX_TRAJECTORY.containers} objects and lists`);
  }
  return text;
}

function containersIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  let count = 1;
  for (const key in value) count += containersIn((value as Record<string, unknown>)[key]);
  return count;
}

/** Of each group a line, a list that holds it without its trajectories, and then a line per trajectory. */
export function groupsInFile(file: string): GroupSource {
  return {
    async *entries() {
      for await (const line of fileLines(file)) {
        const value = await parseJsonAsync(line, TRAJECTORY_NUMBERS);
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
    for (const trajectory of trajectories) yield `${jsonText(trajectory)}\n`;
  }
}

/** The same in turns, as bytes. @throws ValidationError as `groupsInMemory` */
export function groupLinesAsync(groups: readonly TrajectoryGroup[]): AsyncGenerator<Uint8Array> {
  return linesInChunks(groupLinesInTurns(groups));
}

async function* groupLinesInTurns(groups: readonly TrajectoryGroup[]): AsyncGenerator<string> {
  for await (const entry of groupsInMemory(groups).entries()) {
    const text = await entry.text();
    yield "group" in entry ? `[${text}]\n` : `${text}\n`;
  }
}
