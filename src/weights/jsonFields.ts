// Fields of a JSON file that someone else wrote: every one is checked where it is read, errors name file and field.

import { ModelFileError } from "../errors.js";
import { jsonReason, withoutByteOrderMark } from "../json.js";
import { readRegularFile } from "../regularFile.js";
import { DEPTH_MESSAGE, isDeep } from "../valueDepth.js";

/** Longest JSON file read, in bytes: configurations are a few kilobytes, an index of a large model a few megabytes. */
const MAX_BYTES = 64 * 2 ** 20;

/** An object of a JSON file, with the path at which it was found. */
export class JsonFields {
  readonly file: string;
  readonly #values: Record<string, unknown>;
  readonly #path: string;

  constructor(file: string, values: unknown, path = "") {
    if (typeof values !== "object" || values === null || Array.isArray(values)) {
      throw new ModelFileError(file, path === "" ? "is not a JSON object" : `${path} must be an object`, {
        param: path,
      });
    }
    if (isDeep(values)) {
      throw new ModelFileError(file, path === "" ? DEPTH_MESSAGE : `${path} ${DEPTH_MESSAGE}`, { param: path });
    }
    this.file = file;
    this.#values = values as Record<string, unknown>;
    this.#path = path;
  }

  static async read(file: string): Promise<JsonFields> {
    const text = (await readRegularFile(file, MAX_BYTES)).toString("utf8");
    try {
      return new JsonFields(file, JSON.parse(withoutByteOrderMark(text)));
    } catch (cause) {
      if (cause instanceof ModelFileError) throw cause;
      throw new ModelFileError(file, `is not valid JSON: ${jsonReason(cause)}`, { cause });
    }
  }

  /** With values for fields that are absent; `over`: for those that are there too. */
  withDefaults(defaults: Record<string, unknown>, over = false): JsonFields {
    const values = over ? { ...this.#values, ...defaults } : { ...defaults, ...this.#values };
    return new JsonFields(this.file, values, this.#path);
  }

  get names(): string[] {
    return Object.keys(this.#values);
  }

  /** The value as it is; null when it is absent. */
  get(name: string): unknown {
    return Object.hasOwn(this.#values, name) ? (this.#values[name] ?? null) : null;
  }

  /** As {@link get}, but tells a null from an absent field. */
  has(name: string): boolean {
    return Object.hasOwn(this.#values, name);
  }

  fail(name: string, problem: string): never {
    const param = this.#path === "" ? name : `${this.#path}.${name}`;
    throw new ModelFileError(this.file, `${param} ${problem}`, { param });
  }

  integer(name: string, min: number, max: number, fallback?: number): number {
    const value = this.get(name) ?? fallback ?? null;
    if (value === null) this.fail(name, "is missing");
    if (!Number.isInteger(value) || (value as number) < min || (value as number) > max) {
      this.fail(name, `must be a whole number from ${min} to ${max}, not ${shown(value)}`);
    }
    return value as number;
  }

  number(name: string, min: number, max: number, fallback?: number): number {
    const value = this.get(name) ?? fallback ?? null;
    if (value === null) this.fail(name, "is missing");
    if (typeof value !== "number" || !(value >= min && value <= max)) {
      this.fail(name, `must be a number from ${min} to ${max}, not ${shown(value)}`);
    }
    return value;
  }

  boolean(name: string, fallback: boolean): boolean {
    const value = this.get(name) ?? fallback;
    if (typeof value !== "boolean") this.fail(name, `must be true or false, not ${shown(value)}`);
    return value;
  }

  string(name: string, fallback?: string): string {
    const value = this.get(name) ?? fallback ?? null;
    if (value === null) this.fail(name, "is missing");
    if (typeof value !== "string") this.fail(name, `must be a string, not ${shown(value)}`);
    return value;
  }

  strings(name: string): string[] {
    const value = this.get(name);
    if (!Array.isArray(value) || !value.every((item) => typeof item === "string")) {
      this.fail(name, `must be a list of strings, not ${shown(value)}`);
    }
    return value;
  }

  /** null when absent. */
  object(name: string): JsonFields | null {
    const value = this.get(name);
    return value === null ? null : new JsonFields(this.file, value, this.#path === "" ? name : `${this.#path}.${name}`);
  }
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
