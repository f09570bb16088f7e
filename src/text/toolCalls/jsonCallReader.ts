// One tool call written as a JSON object, read character by character: its name as soon as it is known, then its
// arguments as they come.

import { isJson } from "../../json.js";
import type { CallReader, ReaderState } from "./callReader.js";

/** Keys under which models write the arguments. */
const ARGUMENT_KEYS: ReadonlySet<string> = new Set(["arguments", "parameters"]);
/** Other keys that the object of a call may have. */
const OTHER_KEYS: ReadonlySet<string> = new Set(["name", "type", "id", "function"]);
const SPACE = /\s/;
const VALUE_START = /["{[\-\dtfn]/;

export class JsonCallReader implements CallReader {
  name: string | null = null;

  private expects: "object" | "key or end" | "key" | "colon" | "value" | "comma or end" | "nothing" = "object";
  private key = "";
  private knownName: string | null = null;
  /** The JSON text of the key or value being read. */
  private text = "";
  private depth = 0;
  /** Whether name and arguments stand in an object of their own, `{"type": "function", "function": {...}}`. */
  private isNested = false;
  private inString = false;
  private escaped = false;
  /** Arguments not yet taken. */
  private ready = "";
  /** Arguments that came before the name. */
  private early: string | null = null;
  private hasArguments = false;
  /** Arguments go out as they come, unless the name is still missing or they are no object. */
  private streams = false;

  push(character: string): ReaderState {
    if (this.inString || this.depth > 0 || (this.expects === "value" && this.text !== "")) {
      return this.insideText(character);
    }
    if (SPACE.test(character)) return "reading";
    switch (this.expects) {
      case "object":
        return this.moveIf(character === "{", "key or end");
      case "key or end":
        if (character === "}") return this.end();
        return this.beginKey(character);
      case "key":
        return this.beginKey(character);
      case "colon":
        return this.moveIf(character === ":", "value");
      case "value":
        return this.beginValue(character);
      case "comma or end":
        if (character === "}") return this.end();
        return this.moveIf(character === ",", "key");
      case "nothing":
        return "failed";
    }
  }

  takeArguments(): string {
    const text = this.ready;
    this.ready = "";
    return text;
  }

  isSound(text: string): boolean {
    return isJson(text);
  }

  private moveIf(condition: boolean, expects: typeof this.expects): ReaderState {
    if (!condition) return "failed";
    this.expects = expects;
    return "reading";
  }

  private beginKey(character: string): ReaderState {
    if (character !== '"') return "failed";
    this.expects = "key";
    this.text = character;
    this.inString = true;
    return "reading";
  }

  private beginValue(character: string): ReaderState {
    if (!VALUE_START.test(character)) return "failed";
    if (this.key === "function") {
      if (this.isNested) return "failed";
      this.isNested = true;
      return this.moveIf(character === "{", "key or end");
    }
    const isFirst = ARGUMENT_KEYS.has(this.key) && !this.hasArguments;
    if (isFirst && character === "{" && this.knownName !== null) {
      this.streams = true;
      this.giveArguments("");
    }
    return this.insideText(character);
  }

  /** A character of a key or value: strings and brackets are followed to their end. */
  private insideText(character: string): ReaderState {
    const isPlainValue = this.expects === "value" && !this.inString && this.depth === 0 && this.text !== "";
    if (isPlainValue && (character === "," || character === "}" || SPACE.test(character))) {
      const state = this.endValue();
      return state === "reading" && !SPACE.test(character) ? this.push(character) : state;
    }
    this.text += character;
    if (this.inString) this.followString(character);
    else if (character === '"') this.inString = true;
    else if (character === "{" || character === "[") this.depth++;
    else if (character === "}" || character === "]") this.depth--;
    if (this.streams) this.ready += character;
    const isClosed = !this.inString && this.depth === 0 && /["}\]]/.test(character);
    if (!isClosed) return "reading";
    return this.expects === "key" ? this.endKey() : this.endValue();
  }

  private followString(character: string): void {
    if (this.escaped) this.escaped = false;
    else if (character === "\\") this.escaped = true;
    else if (character === '"') this.inString = false;
  }

  private endKey(): ReaderState {
    const key = parsedString(this.text);
    this.text = "";
    if (key === null || !(ARGUMENT_KEYS.has(key) || OTHER_KEYS.has(key))) return "failed";
    this.key = key;
    this.expects = "colon";
    return "reading";
  }

  private endValue(): ReaderState {
    const { key, text } = this;
    this.text = "";
    this.streams = false;
    this.expects = "comma or end";
    if (key === "name") {
      this.knownName = parsedString(text);
      if (!this.knownName) return "failed";
      if (this.early !== null) this.giveArguments(this.early);
    } else if (ARGUMENT_KEYS.has(key) && !this.hasArguments) {
      const given = text.startsWith('"') ? (parsedString(text) ?? text) : text;
      if (this.knownName === null) this.early = given;
      else this.giveArguments(given);
    }
    return "reading";
  }

  private giveArguments(text: string): void {
    this.name = this.knownName;
    this.hasArguments = true;
    this.ready += text === "null" ? "{}" : text;
  }

  private end(): ReaderState {
    if (this.knownName === null) return "failed";
    if (this.isNested) {
      this.isNested = false;
      this.expects = "comma or end";
      return "reading";
    }
    if (!this.hasArguments) this.giveArguments("{}");
    this.expects = "nothing";
    return "done";
  }
}

/** null: it is no JSON string. */
export function parsedString(json: string): string | null {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}
