// `<function=name><parameter=key>value</parameter>...</function>`: strings are written as they are, other values as JSON.

import { isJson } from "../../json.js";
import { ProgramReader, type Reading } from "./callReader.js";
import { PythonCallReader } from "./pythonCallReader.js";
import { heldLength } from "./tagSearch.js";
import type { OfferedTools } from "./toolCallCollector.js";

export const FUNCTION = "<function=";
const END = "</function>";
const PARAMETER = "<parameter=";
/** A line's end belongs to the tag. */
const VALUE_ENDS = ["\n</parameter>", "</parameter>"];

export class XmlCallReader extends ProgramReader {
  /** `isOpen`: the tag has been read up to the function's name. */
  constructor(
    private readonly offered: OfferedTools | null,
    private readonly isOpen: boolean,
  ) {
    super();
  }

  protected *read(): Reading {
    if (!this.isOpen) yield* this.expect(FUNCTION);
    const name = yield* this.word(/[^<>\s]/);
    if (name === "" || !this.at(">")) this.fail();
    this.name = name;
    const schema = this.offered?.get(name);
    let opening = "{";
    for (;;) {
      yield* this.advance();
      yield* this.skipSpace();
      yield* this.expect("<");
      if (this.at("/")) break;
      yield* this.expect(PARAMETER.slice(1));
      const key = yield* this.word(/[^<>\n]/);
      if (key === "") this.fail();
      yield* this.expect(">");
      this.give(`${opening}${JSON.stringify(key)}: `);
      opening = ", ";
      yield* this.parameter(typesOf(propertyOf(schema, key)));
    }
    yield* this.expectEnd(END.slice(1));
    this.give(opening === "{" ? "{}" : "}");
  }

  private *parameter(types: ReadonlySet<string> | null): Reading {
    if (types?.size === 1 && types.has("string")) {
      this.give('"');
      yield* this.value((text) => this.giveText(text));
      this.endText();
      this.give('"');
      return;
    }
    const pieces: string[] = [];
    yield* this.value((text) => pieces.push(text));
    this.give(jsonOf(pieces.join(""), types));
  }

  /** Ends at the last character of its tag. */
  private *value(take: (text: string) => void): Reading {
    if (this.at("\n")) yield* this.advance();
    for (let held = this.current; ; held += this.current) {
      const end = VALUE_ENDS.find((tag) => held.endsWith(tag));
      if (end !== undefined) return take(held.slice(0, -end.length));
      const certain = held.length - heldLength(held, VALUE_ENDS);
      take(held.slice(0, certain));
      held = held.slice(certain);
      yield* this.advance();
    }
  }
}

type Schema = Readonly<Record<string, unknown>>;

function propertyOf(schema: unknown, key: string): unknown {
  const properties = (schema as Schema | null | undefined)?.properties as Schema | null | undefined;
  return typeof properties === "object" && properties !== null && Object.hasOwn(properties, key)
    ? properties[key]
    : null;
}

const STRING: ReadonlySet<string> = new Set(["string"]);

/** The types that a value may have; null: it does not say. A parameter that is not declared is a string. */
function typesOf(schema: unknown): ReadonlySet<string> | null {
  if (typeof schema !== "object" || schema === null) return STRING;
  const { type, anyOf, oneOf, enum: values, ...rest } = schema as Schema;
  if (typeof type === "string") return new Set([type]);
  if (Array.isArray(type)) return new Set(type as string[]);
  const listed = Array.isArray(values) ? values : "const" in rest ? [rest.const] : null;
  if (listed !== null) return new Set(listed.map(typeOf));
  const choices = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : null;
  if (choices === null)
    return Object.keys(rest).some((key) => key !== "description" && key !== "title") ? null : STRING;
  const types = choices.map(typesOf);
  return types.includes(null) ? null : new Set(types.flatMap((some) => [...some!]));
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value === "bigint" || value instanceof Number ? "number" : typeof value;
}

/** Templates print what is neither text nor an object as Python does. */
const PRINTED: Readonly<Record<string, string>> = { True: "true", False: "false", None: "null" };

/** What the value says where its type allows it, else its text. */
function jsonOf(text: string, types: ReadonlySet<string> | null): string {
  const trimmed = text.trim();
  const json = PRINTED[trimmed] ?? (isJson(trimmed) ? trimmed : pythonJson(trimmed));
  if (json === null) return JSON.stringify(text);
  const type = typeOf(JSON.parse(json));
  const isAllowed =
    types === null
      ? type === "object" || type === "array"
      : types.has(type) || (type === "number" && types.has("integer"));
  return isAllowed ? json : JSON.stringify(text);
}

/** Of a list or dictionary that is written as Python does; null: it is none. */
function pythonJson(text: string): string | null {
  if (!/^[[{]/.test(text)) return null;
  const reader = new PythonCallReader();
  const states = Array.from(`value(of=${text})`, (character) => reader.push(character));
  const isWhole = states.indexOf("done") === states.length - 1;
  return isWhole ? reader.takeArguments().slice('{"of": '.length, -1) : null;
}
