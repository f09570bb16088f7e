// The thread that reads one large body with trajectory groups: from a file, and the groups into another one.

import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { ValidationError, type ValidationIssue } from "../errors.js";
import { jsonText } from "../json.js";
import { JsonCursor, LargeValueError } from "../jsonCursor.js";
import { MAX_TRAJECTORY } from "./bounds.js";
import { TRAJECTORY_NUMBERS } from "./exactNumbers.js";
import { MAX_GROUP_TRAJECTORIES, MAX_GROUPS, trajectory, trajectoryGroup } from "./trajectories.js";
import { validate } from "./validate.js";

export interface GroupsTask {
  body: string;
  /** Where the groups are written to. */
  groups: string;
  /** Of the body, which are wanted beside the groups. */
  fields: readonly string[];
}

/** `head`: the other fields; its `trajectory_groups` is what was given for them where that is no list. */
export type GroupsAnswer = { head: Record<string, unknown> } | { issues: readonly ValidationIssue[] };

const WRITE_CHUNK_CHARACTERS = 2 ** 20;

const rest = trajectoryGroup.omit({ trajectories: true });

class GroupsReader {
  private readonly cursor: JsonCursor;
  /** Where the value stands that is read. */
  private place: string[] = [];

  constructor(
    bytes: Buffer,
    private readonly fields: ReadonlySet<string>,
    private readonly write: (line: string) => void,
  ) {
    this.cursor = new JsonCursor(bytes);
  }

  read(): GroupsAnswer {
    try {
      return { head: this.body() };
    } catch (error) {
      if (error instanceof ValidationError) return { issues: error.issues };
      if (error instanceof LargeValueError) {
        return { issues: [{ loc: ["body", ...this.place], msg: error.message, type: "too_long" }] };
      }
      if (!(error instanceof SyntaxError)) throw error;
      return { issues: [{ loc: ["body"], msg: `not valid JSON: ${error.message}`, type: "json_invalid" }] };
    }
  }

  private body(): Record<string, unknown> {
    const { cursor } = this;
    const head: Record<string, unknown> = {};
    for (const name of cursor.fields()) {
      this.place = [name];
      if (name === "trajectory_groups" && cursor.isList()) {
        this.once(head, name);
        for (const g of cursor.elements()) this.group(["trajectory_groups", String(g)], g);
        head[name] = [];
      } else {
        const value = cursor.value(MAX_TRAJECTORY);
        if (this.fields.has(name)) head[name] = value;
      }
    }
    cursor.end();
    return head;
  }

  /** What is written when it is met cannot be taken back by a later field of the same name. */
  private once(given: object, name: string): void {
    if (Object.hasOwn(given, name)) this.refuse("is given twice", "value_error");
  }

  private refuse(msg: string, type: string): never {
    throw new ValidationError([{ loc: ["body", ...this.place], msg, type }]);
  }

  /** Its other fields are written before its trajectories, wherever they stand. */
  private group(place: string[], index: number): void {
    const { cursor } = this;
    this.place = place;
    if (index >= MAX_GROUPS) this.refuse(`there are more than ${MAX_GROUPS}`, "too_long");
    if (!cursor.isObject()) {
      this.checked(trajectoryGroup, cursor.value(MAX_TRAJECTORY));
      return;
    }
    const group: Record<string, unknown> = {};
    let start: number | null = null;
    for (const name of cursor.fields()) {
      this.place = [...place, name];
      if (name === "trajectories" && cursor.isList()) {
        if (start !== null) this.refuse("is given twice", "value_error");
        start = cursor.at;
        cursor.skip();
      } else {
        const value = cursor.value(MAX_TRAJECTORY);
        if (Object.hasOwn(trajectoryGroup.shape, name)) group[name] = value;
      }
    }
    const end = cursor.at;
    this.place = place;
    if (start === null || Object.hasOwn(group, "trajectories")) this.checked(trajectoryGroup, group);
    this.write(`${JSON.stringify([this.checked(rest, group)])}\n`);
    cursor.at = start!;
    for (const t of cursor.elements()) {
      this.place = [...place, "trajectories", String(t)];
      if (t >= MAX_GROUP_TRAJECTORIES) this.refuse(`there are more than ${MAX_GROUP_TRAJECTORIES}`, "too_long");
      this.write(`${jsonText(this.checked(trajectory, cursor.value(MAX_TRAJECTORY, TRAJECTORY_NUMBERS)))}\n`);
    }
    cursor.at = end;
  }

  private checked(schema: Parameters<typeof validate>[0], value: unknown): unknown {
    try {
      return validate(schema, value);
    } catch (error) {
      if (!(error instanceof ValidationError)) throw error;
      const issues = error.issues.map(({ loc, ...issue }) => ({
        loc: ["body", ...this.place, ...loc.slice(1)],
        ...issue,
      }));
      throw new ValidationError(issues);
    }
  }
}

function readWhole(file: string): Buffer {
  const descriptor = openSync(file, "r");
  try {
    const bytes = Buffer.allocUnsafeSlow(fstatSync(descriptor).size);
    for (let done = 0; done < bytes.length; ) {
      const read = readSync(descriptor, bytes, done, Math.min(bytes.length - done, 2 ** 24), done);
      if (read === 0) throw new Error(`${file} ends too soon`);
      done += read;
    }
    return bytes;
  } finally {
    closeSync(descriptor);
  }
}

function run({ body, groups, fields }: GroupsTask): GroupsAnswer {
  const descriptor = openSync(groups, "wx", 0o600);
  try {
    let lines: string[] = [];
    let characters = 0;
    const flush = () => {
      const bytes = Buffer.from(lines.join(""));
      for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done);
      lines = [];
      characters = 0;
    };
    const write = (line: string) => {
      lines.push(line);
      characters += line.length;
      if (characters >= WRITE_CHUNK_CHARACTERS) flush();
    };
    const answer = new GroupsReader(readWhole(body), new Set(fields), write).read();
    flush();
    fsyncSync(descriptor);
    return answer;
  } finally {
    closeSync(descriptor);
  }
}

parentPort?.postMessage(run(workerData as GroupsTask));
