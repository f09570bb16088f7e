// Fields of a GGUF file's metadata, checked where they are read.

import { ModelFileError } from "../errors.js";
import type { GgufFile, GgufValue } from "./ggufFile.js";

export class GgufFields {
  constructor(readonly gguf: GgufFile) {}

  fail(key: string, problem: string): never {
    throw new ModelFileError(this.gguf.file, `${key} ${problem}`, { param: key });
  }

  get(key: string): GgufValue | undefined {
    return this.gguf.metadata.get(key);
  }

  number(key: string): number | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    // One number for each layer where they might differ.
    const [first, ...others] = Array.isArray(value) ? value : [value];
    if (typeof first !== "number") this.fail(key, "must be a number");
    if (others.some((other) => other !== first)) this.fail(key, "differs from layer to layer, which is not known");
    return first;
  }

  boolean(key: string): boolean | undefined {
    const value = this.get(key);
    if (value !== undefined && typeof value !== "boolean") this.fail(key, "must be true or false");
    return value;
  }

  string(key: string): string | undefined {
    const value = this.get(key);
    if (value !== undefined && typeof value !== "string") this.fail(key, "must be a text");
    return value;
  }

  required<T>(key: string, value: T | undefined): T {
    return value ?? this.fail(key, "is missing");
  }
}
