// Identifiers of resources, and the addresses inside them, as regular expressions.

const OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
export const IPV4 = `${OCTET}(?:\\.${OCTET}){3}`;
export const IPV6 = ipv6();
export const HEX = "[0-9A-Fa-f]";

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
