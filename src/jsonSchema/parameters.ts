// How a function's parameters are written where they are no JSON object.

import { ANY_TEXT, chars, EMPTY, type Expr, not, repeat, seq, text } from "../grammar/ir.js";
import { type JsonRules, PYTHON_CONSTANTS, type ValueNotation } from "./jsonValues.js";

export interface ParameterNotation {
  /** Of values, where it is not JSON's. */
  values: ValueNotation | null;
  /** Between two parameters. */
  separator(json: JsonRules): Expr;
  parameter(name: Expr, value: Expr): Expr;
  /** Any name. */
  name: Expr;
  /** What ends a name where it is read again: names that hold it are not written. */
  endsName: RegExp;
  /** Text that stands for a string without quotes; null: strings are written as in JSON. */
  plainText: Expr | null;
}

const LETTER = chars([0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]);
const WORD = chars([0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]);
const IDENTIFIER = seq(LETTER, repeat(WORD, 0, 63));

/** By the names that structural tags give them. JSON Schemas of parameters are those of an object. */
export const PARAMETER_NOTATIONS = {
  /** `<parameter=name>\nvalue\n</parameter>\n` */
  qwen_xml: {
    values: null,
    separator: () => EMPTY,
    parameter: (name, value) => seq(text("<parameter="), name, text(">\n"), value, text("\n</parameter>\n")),
    name: IDENTIFIER,
    endsName: /[<>\n]/,
    plainText: not(seq(ANY_TEXT, text("</parameter>"), ANY_TEXT)),
  },
  /** `name=value, name=value` */
  python: {
    values: { constants: PYTHON_CONSTANTS },
    separator: (json) => json.comma,
    parameter: (name, value) => seq(name, text("="), value),
    name: IDENTIFIER,
    endsName: /[=,()[\]{}"']|^\s|\s$/,
    plainText: null,
  },
} as const satisfies Record<string, ParameterNotation>;
