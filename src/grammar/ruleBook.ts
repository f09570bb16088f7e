// The rules of a grammar while it is written: a rule may be named before it is known.

import { GrammarError } from "./grammarError.js";
import { type Expr, type Grammar, NEVER } from "./ir.js";

/** A schema or grammar that comes to more has too many combinations. */
const MAX_RULES = 20_000;

export class RuleBook {
  private readonly rules: Expr[] = [];

  /** A rule that matches nothing until it is defined. */
  reserve(): Extract<Expr, { kind: "rule" }> {
    if (this.rules.length >= MAX_RULES) throw new GrammarError(`comes to more than ${MAX_RULES} rules`);
    return { kind: "rule", rule: this.rules.push(NEVER) - 1 };
  }

  define(reference: Extract<Expr, { kind: "rule" }>, expr: Expr): void {
    this.rules[reference.rule] = expr;
  }

  add(expr: Expr): Expr {
    const reference = this.reserve();
    this.define(reference, expr);
    return reference;
  }

  /** The rule of that key, made when it is first asked for; it may lead to itself. */
  once<K>(known: Map<K, Expr>, key: K, make: () => Expr): Expr {
    const found = known.get(key);
    if (found !== undefined) return found;
    const reference = this.reserve();
    known.set(key, reference);
    this.define(reference, make());
    return reference;
  }

  /** Takes over the rules of another grammar; its start under its new number. */
  adopt(grammar: Grammar): Expr {
    const offset = this.rules.length;
    for (const rule of grammar.rules) this.add(moved(rule, offset));
    return { kind: "rule", rule: grammar.start + offset };
  }

  /** The grammar whose texts are those of `start`. */
  finish(start: Expr): Grammar {
    const root = start.kind === "rule" ? start : (this.add(start) as { kind: "rule"; rule: number });
    return { rules: this.rules, start: root.rule };
  }
}

/** The expression with the numbers of its rules raised. */
function moved(expr: Expr, offset: number): Expr {
  switch (expr.kind) {
    case "rule":
      return { kind: "rule", rule: expr.rule + offset };
    case "seq":
    case "alt":
      return { ...expr, items: expr.items.map((item) => moved(item, offset)) };
    case "repeat":
      return { ...expr, item: moved(expr.item, offset) };
    default:
      return expr;
  }
}
