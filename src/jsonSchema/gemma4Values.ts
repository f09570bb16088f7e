// Values as Gemma 4 writes them: `{name:<|"|>text<|"|>,list:[1,true]}`.

import { GEMMA4_QUOTE } from "../gemma4Quote.js";
import { ANY_TEXT, and, chars, type Expr, not, repeat, seq, text } from "../grammar/ir.js";
import type { ValueNotation } from "./jsonValues.js";

/** Nothing ends a text but the mark, so there is no text that holds it. */
const FREE_TEXT = not(seq(ANY_TEXT, text(GEMMA4_QUOTE), ANY_TEXT));

/** Names that stand without marks. */
const PLAIN_NAME = /^[^\s:,{}[\]<"](?:[^:,{}[\]<"\n]*[^\s:,{}[\]<"])?$/;
/** Of those, names that nobody declares. */
const FREE_NAME = seq(
  chars([0x24, 0x24], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]),
  repeat(chars([0x24, 0x24], [0x2d, 0x2e], [0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]), 0, 63),
);

/** `mark`: a text in which the texts of special tokens are those tokens. The template writes members by their names. */
export function gemma4Values(mark: (literal: string) => Expr): ValueNotation {
  const quote = mark(GEMMA4_QUOTE);
  const marked = (content: Expr) => seq(quote, content, quote);
  return {
    texts: {
      text: (content) => marked(and(content, FREE_TEXT)),
      name: (name) => (PLAIN_NAME.test(name) ? text(name) : marked(and(text(name), FREE_TEXT))),
      nameOf: (content) => (content === null ? FREE_NAME : and(content, FREE_NAME)),
    },
    isCompact: true,
    sortsMembers: true,
  };
}
