// The formats of strings, each as the document that defines it has it.

import { ANY_CHARACTER, alt, and, type Expr, not, repeat, seq } from "../ir.js";
import { regexToExpr } from "../regex.js";

const OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const IPV4 = `${OCTET}(?:\\.${OCTET}){3}`;
const IPV6 = ipv6();
const HEX = "[0-9A-Fa-f]";

/** RFC 4291, 2.2: eight groups, one run of them left out, the last two perhaps as IPv4. */
function ipv6(): string {
  const group = "[0-9A-Fa-f]{1,4}";
  const tail = `(?:${group}:${group}|${IPV4})`;
  const forms = [`(?:${group}:){6}${tail}`];
  for (let before = 0; before <= 7; before++) {
    const start = before === 0 ? "" : `${group}(?::${group}){${before - 1}}`;
    const after = 7 - before;
    forms.push(`${start}::`);
    for (let count = 1; count <= after; count++) {
      forms.push(`${start}::${count === 1 ? group : `(?:${group}:){${count - 1}}${group}`}`);
      if (count >= 2) forms.push(`${start}::${count === 2 ? IPV4 : `(?:${group}:){${count - 2}}${IPV4}`}`);
    }
  }
  return `(?:${forms.join("|")})`;
}

/** RFC 3339, full-date, with the lengths of months and leap years. */
const DATE = [
  "[0-9]{4}-(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])",
  "[0-9]{4}-(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)",
  "[0-9]{4}-02-(?:0[1-9]|1[0-9]|2[0-8])",
  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29",
].join("|");

const OFFSET = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";

/**
 * RFC 3339, full-time. A leap second is accepted where it falls in UTC (23:59:60), at offsets of whole quarters of an
 * hour, as all that are in use are.
 */
function time(): string {
  const leap = ["23:59:60(?:\\.[0-9]+)?[Zz]"];
  for (let hour = 0; hour < 24; hour++) {
    for (let minute = 0; minute < 60; minute += 15) {
      const offset = hour * 60 + minute;
      leap.push(`${clock(1439 + offset)}:60(?:\\.[0-9]+)?\\+${clock(offset)}`);
      leap.push(`${clock(1439 - offset)}:60(?:\\.[0-9]+)?-${clock(offset)}`);
    }
  }
  return `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?${OFFSET}|${leap.join("|")}`;
}

/** Minutes of a day as hours and minutes. */
function clock(minutes: number): string {
  const within = ((minutes % 1440) + 1440) % 1440;
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(Math.floor(within / 60))}:${two(within % 60)}`;
}

/** RFC 3339, appendix A. */
const DURATION = (() => {
  const clockPart = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
  const days = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";
  return `P(?:${days}(?:${clockPart})?|${clockPart}|[0-9]+W)`;
})();

const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";

/**
 * RFC 1123, 2.1: labels of up to 63 characters, 253 in all. Labels with "--" in the third and fourth place are left out:
 * they stand for international names, whose encoding would have to be checked.
 */
function hostname(): Expr {
  const reserved = regexToExpr("(?:[A-Za-z0-9.-]*\\.)?[A-Za-z0-9-]{2}--[A-Za-z0-9.-]*");
  return and(regexToExpr(`${LABEL}(?:\\.${LABEL})*`), repeat(ANY_CHARACTER, 1, 253), not(reserved));
}

/** RFC 5321, 4.1.2: Mailbox. */
const EMAIL = (() => {
  const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const quotedString = '"(?:[ !#-\\[\\]-~]|\\\\[ -~])*"';
  const literal = `\\[(?:${IPV4}|IPv6:${IPV6})\\]`;
  return `(?:${atom}(?:\\.${atom})*|${quotedString})@(?:${LABEL}(?:\\.${LABEL})*|${literal})`;
})();

/** RFC 3986, appendix A. */
const URI_PARTS = (() => {
  const encoded = `%${HEX}{2}`;
  const plain = "A-Za-z0-9._~!$&'()*+,;=\\-";
  const character = `(?:[${plain}:@]|${encoded})`;
  const segments = `(?:/${character}*)*`;
  const host = `(?:\\[(?:${IPV6}|[vV]${HEX}+\\.[${plain}:]+)\\]|(?:[${plain}]|${encoded})*)`;
  const authority = `(?:(?:[${plain}:]|${encoded})*@)?${host}(?::[0-9]*)?`;
  const rooted = `/(?:${character}+${segments})?`;
  const tail = `(?:\\?(?:${character}|[/?])*)?(?:#(?:${character}|[/?])*)?`;
  const withoutColon = `(?:[${plain}@]|${encoded})+`;
  return {
    uri: `[A-Za-z][A-Za-z0-9+.-]*:(?://${authority}${segments}|${rooted}|${character}+${segments}|)${tail}`,
    relative: `(?://${authority}${segments}|${rooted}|${withoutColon}${segments}|)${tail}`,
  };
})();

/** RFC 6901. */
const JSON_POINTER = "(?:/(?:[^/~]|~[01])*)*";

const FORMATS: ReadonlyMap<string, () => Expr> = new Map([
  ["date", () => regexToExpr(DATE)],
  ["time", () => regexToExpr(time())],
  ["date-time", () => seq(regexToExpr(`${DATE}`), regexToExpr("[Tt]"), regexToExpr(time()))],
  ["duration", () => regexToExpr(DURATION)],
  ["email", () => regexToExpr(EMAIL)],
  ["hostname", hostname],
  ["ipv4", () => regexToExpr(IPV4)],
  ["ipv6", () => regexToExpr(IPV6)],
  ["uri", () => regexToExpr(URI_PARTS.uri)],
  ["uri-reference", () => alt(regexToExpr(URI_PARTS.uri), regexToExpr(URI_PARTS.relative))],
  ["uuid", () => regexToExpr(`${HEX}{8}(?:-${HEX}{4}){3}-${HEX}{12}`)],
  ["json-pointer", () => regexToExpr(JSON_POINTER)],
  ["relative-json-pointer", () => regexToExpr(`(?:0|[1-9][0-9]*)(?:#|${JSON_POINTER})`)],
]);

const known = new Map<string, Expr>();

/** Names of formats that can be enforced. */
export const FORMAT_NAMES: readonly string[] = [...FORMATS.keys()];

/** The texts of a format; null when it is not known. */
export function formatExpr(name: string): Expr | null {
  const make = FORMATS.get(name);
  if (make === undefined) return null;
  const expr = known.get(name) ?? make();
  known.set(name, expr);
  return expr;
}
