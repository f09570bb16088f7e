// The formats of strings, each as the document that defines it has it.

import { ANY_CHARACTER, ANY_TEXT, alt, and, type Expr, not, repeat, seq } from "../grammar/ir.js";
import { regexToExpr } from "../grammar/regex.js";
import { HEX, regexFormat } from "./regexFormat.js";

const OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
export const IPV4 = `${OCTET}(?:\\.${OCTET}){3}`;
export const IPV6 = ipv6();

/** RFC 4291, 2.2: eight groups, one run of them left out, the last two perhaps as IPv4. */
function ipv6(): string {
  const group = `${HEX}{1,4}`;
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

/** RFC 3986, appendix A, and RFC 3987, 2.2: those have more characters. */
function identifiers(more: string, morePrivate: string): { absolute: string; relative: string } {
  const encoded = `%${HEX}{2}`;
  const plain = "A-Za-z0-9._~!$&'()*+,;=\\-";
  const character = `(?:[${plain}:@${more}]|${encoded})`;
  const segments = `(?:/${character}*)*`;
  const host = `(?:\\[(?:${IPV6}|[vV]${HEX}+\\.[${plain}:]+)\\]|(?:[${plain}${more}]|${encoded})*)`;
  const authority = `(?:(?:[${plain}:${more}]|${encoded})*@)?${host}(?::[0-9]*)?`;
  const rooted = `/(?:${character}+${segments})?`;
  const tail = `(?:\\?(?:${character}|[/?${morePrivate}])*)?(?:#(?:${character}|[/?])*)?`;
  const withoutColon = `(?:[${plain}@${more}]|${encoded})+`;
  return {
    absolute: `[A-Za-z][A-Za-z0-9+.-]*:(?://${authority}${segments}|${rooted}|${character}+${segments}|)${tail}`,
    relative: `(?://${authority}${segments}|${rooted}|${withoutColon}${segments}|)${tail}`,
  };
}

export const URI = identifiers("", "");

/** RFC 3987, 2.2: ucschar and iprivate. */
const PLANES = Array.from({ length: 13 }, (_, i) => (i + 1).toString(16));
export const IRI = identifiers(
  `\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef${PLANES.map((plane) => `\\u{${plane}0000}-\\u{${plane}fffd}`).join("")}\\u{e1000}-\\u{efffd}`,
  "\\ue000-\\uf8ff\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}",
);

/** RFC 6570, 2, with the apostrophe among the literals (erratum 6937). */
export const URI_TEMPLATE = (() => {
  const encoded = `%${HEX}{2}`;
  const literal = `(?:[^\\u0000- "%<>\\\\^\`{|}\\u007f-\\u009f\\ufdd0-\\ufdef\\ufff0-\\uffff]|${encoded})`;
  const character = `(?:[A-Za-z0-9_]|${encoded})`;
  const variable = `${character}(?:\\.?${character})*(?:\\*|:[1-9][0-9]{0,3})?`;
  return `(?:${literal}|\\{[+#./;?&=,!@|]?${variable}(?:,${variable})*\\})*`;
})();

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

/** RFC 1123, 2.1: labels of up to 63 characters, 253 in all. */
function plainHostname(): Expr {
  return and(regexToExpr(`${LABEL}(?:\\.${LABEL})*`), repeat(ANY_CHARACTER, 1, 253));
}

/**
 * RFC 5890, 2.3.1, besides: labels with "--" in the third and fourth place are reserved. Those among them that stand for
 * international names are left out: no automaton checks their encoding.
 */
function hostname(): Expr {
  const reserved = regexToExpr("(?:[A-Za-z0-9.-]*\\.)?[A-Za-z0-9-]{2}--[A-Za-z0-9.-]*");
  return and(plainHostname(), not(reserved));
}

/** RFC 5321, 4.1.2: Mailbox. */
const EMAIL = (() => {
  const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const quotedString = '"(?:[ !#-\\[\\]-~]|\\\\[ -~])*"';
  const literal = `\\[(?:${IPV4}|IPv6:${IPV6})\\]`;
  return `(?:${atom}(?:\\.${atom})*|${quotedString})@(?:${LABEL}(?:\\.${LABEL})*|${literal})`;
})();

/** RFC 6901. */
const JSON_POINTER = "(?:/(?:[^/~]|~[01])*)*";

/** RFC 4122, 4.1: of a version, in the variant that has versions. */
function uuid(version: number): string {
  return `${HEX}{8}-${HEX}{4}-${version}${HEX}{3}-[89ABab]${HEX}{3}-${HEX}{12}`;
}

/** CSS 2.1, 4.3.6: a name, in any case, three or six digits, or numbers of which all or none are percentages. */
const COLOR = (() => {
  const names =
    "aqua|black|blue|fuchsia|gray|green|lime|maroon|navy|olive|orange|purple|red|silver|teal|white|yellow".replaceAll(
      /[a-z]/g,
      (letter) => `[${letter}${letter.toUpperCase()}]`,
    );
  const space = "[ \\t\\r\\n\\f]*";
  const three = (number: string) => `${space}${number}${space}(?:,${space}${number}${space}){2}`;
  const numbers = [three("[+-]?[0-9]+"), three("[+-]?(?:[0-9]+|[0-9]*\\.[0-9]+)%")];
  return `${names}|#(?:${HEX}{3}){1,2}|[rR][gG][bB]\\((?:${numbers.join("|")})\\)`;
})();

const PREFIX_4 = "(?:[12]?[0-9]|3[0-2])";
const PREFIX_6 = "(?:[1-9]?[0-9]|1[01][0-9]|12[0-8])";

/** RFC 4648, 4 and 5, padded and not. */
const BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
const BASE64_URL = "(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2,3})?";

const PATTERNS: Readonly<Record<string, string>> = {
  date: DATE,
  time: time(),
  duration: DURATION,
  email: EMAIL,
  ipv4: IPV4,
  ipv6: IPV6,
  uri: URI.absolute,
  url: URI.absolute,
  iri: IRI.absolute,
  "uri-template": URI_TEMPLATE,
  uuid: `${HEX}{8}(?:-${HEX}{4}){3}-${HEX}{12}`,
  "json-pointer": JSON_POINTER,
  // Draft 3's.
  color: COLOR,
  "relative-json-pointer": `(?:0|[1-9][0-9]*)(?:#|${JSON_POINTER})`,
  // Names that OpenAPI, Pydantic and zod write.
  byte: BASE64,
  base64: BASE64,
  base64url: BASE64_URL,
  ...Object.fromEntries([1, 3, 4, 5, 6, 7, 8].map((version) => [`uuid${version}`, uuid(version)])),
  ipvanyaddress: `${IPV4}|${IPV6}`,
  ipv4interface: `${IPV4}(?:/${PREFIX_4})?`,
  ipv6interface: `${IPV6}(?:/${PREFIX_6})?`,
  cidrv4: `${IPV4}/${PREFIX_4}`,
  cidrv6: `${IPV6}/${PREFIX_6}`,
  cuid: "[cC][0-9a-z]{6,}",
  cuid2: "[0-9a-z]+",
  ulid: "[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}",
  xid: "[0-9a-vA-V]{20}",
  ksuid: "[A-Za-z0-9]{27}",
  nanoid: "[A-Za-z0-9_-]{21}",
  mac: "(?:[0-9A-F]{2}:){5}[0-9A-F]{2}|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}",
  hex: `${HEX}*`,
  e164: "\\+[1-9][0-9]{6,14}",
  lowercase: "[^A-Z]*",
  uppercase: "[^a-z]*",
};

/** Names that say what a string is for, and zod's for what the pattern beside them says. */
const ANY_STRING = ["password", "binary", "path", "includes", "starts_with", "ends_with"];

/** Of numbers: integers of so many bits, and numbers that are stored as such. */
const NUMERIC: ReadonlyMap<string, { low: bigint; high: bigint } | null> = new Map([
  ...[8n, 16n, 32n, 64n].flatMap((bits): [string, { low: bigint; high: bigint }][] => [
    [`int${bits}`, { low: -(2n ** (bits - 1n)), high: 2n ** (bits - 1n) - 1n }],
    [`uint${bits}`, { low: 0n, high: 2n ** bits - 1n }],
  ]),
  ["float", null],
  ["double", null],
  // Draft 3's: a number of milliseconds.
  ["utc-millisec", null],
]);

const FORMATS: ReadonlyMap<string, () => Expr> = new Map([
  ...Object.entries(PATTERNS).map(([name, pattern]): [string, () => Expr] => [name, () => regexToExpr(pattern)]),
  ...ANY_STRING.map((name): [string, () => Expr] => [name, () => ANY_TEXT]),
  ["date-time", () => seq(regexToExpr(DATE), regexToExpr("[Tt]"), regexToExpr(time()))],
  ["hostname", hostname],
  ["regex", regexFormat],
  // Draft 3's names.
  ["host-name", plainHostname],
  ["ip-address", () => regexToExpr(IPV4)],
  ["uri-reference", () => alt(regexToExpr(URI.absolute), regexToExpr(URI.relative))],
  ["iri-reference", () => alt(regexToExpr(IRI.absolute), regexToExpr(IRI.relative))],
]);

const known = new Map<string, Expr>();

/** Names of formats that can be enforced. */
export const FORMAT_NAMES: readonly string[] = [...FORMATS.keys(), ...NUMERIC.keys()];

/**
 * Names that drafts of the standard define and that are not enforced. A schema that asks for one is refused. Any other name
 * that is not known is the author's own: the standard has such a format say nothing about a value.
 */
export const UNENFORCED_FORMATS: readonly string[] = ["idn-email", "idn-hostname", "style", "phone"];

/** The texts of a format; null when it says nothing about strings. `plainHostnames`: as before draft 7. */
export function formatExpr(name: string, plainHostnames: boolean): Expr | null {
  const isPlain = plainHostnames && name === "hostname";
  const make = isPlain ? plainHostname : FORMATS.get(name);
  if (make === undefined) return null;
  const key = isPlain ? "plain hostname" : name;
  const expr = known.get(key) ?? make();
  known.set(key, expr);
  return expr;
}

/** The integers of a format; null when it says nothing about numbers. */
export function formatIntegers(name: string): { low: bigint; high: bigint } | null {
  return NUMERIC.get(name) ?? null;
}
