// The format "regex": texts that are regular expressions of ECMA-262, with the flag u and without. Left out is what no
// automaton tells: names of groups and references to them, groups in more than GROUP_DEPTH others or inside look-around, and
// ranges and bounds whose order only a comparison of longer numbers shows.

import { alt, type Expr, repeat, seq, text } from "../grammar/ir.js";
import { regexToExpr } from "../grammar/regex.js";

const GROUP_DEPTH = 3;

/** A digit. */
export const HEX = "[0-9A-Fa-f]";
const DIGITS = [..."0123456789"];
/** Inside brackets. */
const SYNTAX = "\\^$.*+?()\\[\\]{}|\\\\";
const CATEGORIES = "L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfon]?|Alphabetic|ASCII|White_Space";
const ESCAPE = `\\\\(?:[dDsSwWfnrtv/${SYNTAX}]|c[A-Za-z]|x${HEX}{2}|u${HEX}{4}|u\\{(?:${HEX}{1,5}|10${HEX}{4})\\}|[pP]\\{(?:${CATEGORIES})\\})`;

interface Pair {
  /** Each a digit, or one in several spellings, ascending; for brackets. */
  digits: readonly string[];
  between: string;
  /** Before the digit and after it, of both. */
  head?: string;
  tail?: string;
  orEqual?: boolean;
}

/** Two numbers or characters of which the second has a digit above (or equal to) the first's in the same place. */
function ascending({ digits, between, head = "", tail = "", orEqual = false }: Pair): string {
  const pairs = digits.map((low, i) => [low, digits.slice(orEqual ? i : i + 1).join("")]);
  return pairs
    .filter(([, high]) => high !== "")
    .map(([low, high]) => `${head}[${low}]${tail}${between}${head}[${high}]${tail}`)
    .join("|");
}

/** {n}, {n,} and {n,m}, where m is seen to be no less than n: of more digits, or of as many. */
const BOUNDS = (() => {
  const number = "(?:0|[1-9][0-9]{0,5})";
  const leading = DIGITS.slice(1);
  const ordered = [
    `0,${number}`,
    ...[1, 2, 3].map((length) => `[1-9][0-9]{${length - 1}},[1-9][0-9]{${length},5}`),
    ascending({ digits: DIGITS, between: ",", orEqual: true }),
    ...leading.map((head) => ascending({ digits: DIGITS, between: ",", head, orEqual: true })),
    ascending({ digits: leading, between: ",", tail: "[0-9]" }),
    ascending({ digits: leading, between: ",", tail: "[0-9]{2}" }),
  ];
  return `\\{(?:${number},?|${ordered.join("|")})\\}`;
})();

/** A hyphen stands for itself at either end, and for a range between two characters in ascending order. */
const CLASS = (() => {
  const printable = Array.from({ length: 0x7f - 0x20 }, (_, i) => String.fromCharCode(0x20 + i));
  const ends = printable.filter((end) => !"\\]-".includes(end)).map((end) => (SYNTAX.includes(end) ? `\\${end}` : end));
  // Not D: what begins with it may be half of a pair, which with the other half is a character of another number.
  const hexDigits = [...DIGITS, "aA", "bB", "cC", "eE", "fF"];
  const beyondAscii = `\\\\u(?:00[89A-Fa-f]${HEX}|0[1-9A-Fa-f]${HEX}{2}|[1-9A-CEFa-cef]${HEX}{3})`;
  const ranges = [
    ascending({ digits: ends, between: "-", orEqual: true }),
    `[${ends.join("")}]-(?:[\\u0080-\\u{10ffff}]|${beyondAscii})`,
    ascending({ digits: hexDigits, between: "-", head: "\\\\u", tail: `${HEX}{3}` }),
    ascending({ digits: hexDigits, between: "-", head: "\\\\x", tail: HEX }),
  ];
  return `\\[\\^?-?(?:${ranges.join("|")}|[^\\\\\\]-]|${ESCAPE}|\\\\[b-])*-?\\]`;
})();

/** The regular expressions, and what they consist of once each. */
export function regexFormat(): Expr {
  const atom = regexToExpr(`[^${SYNTAX}]|\\.|${ESCAPE}|${CLASS}`);
  const quantifier = repeat(regexToExpr(`(?:[*+?]|${BOUNDS})\\??`), 0, 1);
  const assertion = regexToExpr("\\^|\\$|\\\\[bB]|\\|");
  // Terms, assertions and the bars between alternatives, in any order.
  const all = (atoms: Expr, assertions: Expr) => repeat(alt(seq(atoms, quantifier), assertions), 0, -1);
  const flat = all(atom, assertion);
  const around = seq(regexToExpr("\\(\\?<?[=!]"), flat, text(")"));
  let within = flat;
  for (let depth = 0; depth < GROUP_DEPTH; depth++) {
    within = all(alt(atom, seq(regexToExpr("\\((?:\\?:)?"), within, text(")"))), alt(assertion, around));
  }
  return within;
}
