// Literals of a grammar that are tokens of their own in a vocabulary: they may be drawn as these, or letter by letter.

import { alt, type Expr, type Grammar, seq } from "../grammar/ir.js";

/** The grammar, in whose literals each text of `tokens` may be that token as well. */
export function withLiteralTokens(grammar: Grammar, tokens: ReadonlyMap<string, number>): Grammar {
  if (tokens.size === 0) return grammar;
  const spelled = Array.from(tokens, ([text, id]) => ({
    bytes: Buffer.from(text),
    token: { kind: "token", id } as const,
  }));
  const known = new Map<Expr, Expr>();
  const rewritten = (expr: Expr): Expr => {
    let found = known.get(expr);
    if (found === undefined) {
      found = rewrite(expr);
      known.set(expr, found);
    }
    return found;
  };
  const rewrite = (expr: Expr): Expr => {
    switch (expr.kind) {
      case "bytes":
        return literal(Buffer.from(expr.bytes, "latin1")) ?? expr;
      case "seq":
      case "alt": {
        const items = expr.items.map(rewritten);
        if (items.every((item, i) => item === expr.items[i])) return expr;
        return expr.kind === "seq" ? seq(...items) : alt(...items);
      }
      case "repeat": {
        const item = rewritten(expr.item);
        return item === expr.item ? expr : { ...expr, item };
      }
      // A token is no text: where texts are compared with each other it has no place.
      default:
        return expr;
    }
  };
  /** null: it holds none of the texts. */
  const literal = (bytes: Buffer): Expr | null => {
    const places = spelled.map((one) => ({ ...one, at: bytes.indexOf(one.bytes) })).filter(({ at }) => at >= 0);
    if (places.length === 0) return null;
    const first = places.reduce((a, b) => (b.at < a.at ? b : a));
    const rest = bytes.subarray(first.at + first.bytes.length);
    const either = alt(plain(first.bytes), first.token);
    return seq(plain(bytes.subarray(0, first.at)), either, literal(rest) ?? plain(rest));
  };
  return { ...grammar, rules: grammar.rules.map(rewritten) };
}

function plain(bytes: Buffer): Expr {
  return bytes.length === 0 ? { kind: "empty" } : { kind: "bytes", bytes: bytes.toString("latin1") };
}
