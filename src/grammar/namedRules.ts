// Rules that refer to each other by name, and left recursion, which is written as repetition where a rule begins with
// itself and refused where it begins with another one that leads back.

import { GrammarError } from "./grammarError.js";
import { alt, type Expr, NEVER, repeat, seq } from "./ir.js";
import { RuleBook } from "./ruleBook.js";

type RuleReference = Extract<Expr, { kind: "rule" }>;

export class NamedRules {
  readonly rules = new RuleBook();
  private readonly references = new Map<string, { reference: RuleReference; line: number }>();
  private readonly bodies = new Map<number, Expr>();

  /** A rule by its name, known already or not. `line` is where it is mentioned, from 1. */
  refer(name: string, line: number): RuleReference {
    const known = this.references.get(name);
    if (known !== undefined) return known.reference;
    const reference = this.rules.reserve();
    this.references.set(name, { reference, line });
    return reference;
  }

  has(name: string): boolean {
    const known = this.references.get(name);
    return known !== undefined && this.bodies.has(known.reference.rule);
  }

  define(name: string, body: Expr, line: number): void {
    if (this.has(name)) throw new GrammarError(`line ${line}: the rule "${name}" is defined twice`);
    this.bodies.set(this.refer(name, line).rule, body);
  }

  /** @throws GrammarError for a rule that is mentioned and not defined, and for left recursion over several rules. */
  finish(): void {
    for (const [name, { reference, line }] of this.references) {
      const body = this.bodies.get(reference.rule);
      if (body === undefined) throw new GrammarError(`line ${line}: there is no rule "${name}"`);
      this.bodies.set(reference.rule, withoutOwnRecursion(reference, body));
    }
    this.refuseLeftRecursion();
    for (const { reference } of this.references.values()) {
      this.rules.define(reference, this.bodies.get(reference.rule)!);
    }
  }

  private refuseLeftRecursion(): void {
    const nullable = this.nullableRules();
    const leftmost = new Map<number, ReadonlySet<number>>();
    for (const [rule, body] of this.bodies) leftmost.set(rule, firstRules(body, nullable));
    const done = new Set<number>();
    for (const [name, { reference, line }] of this.references) {
      const seen = new Set<number>();
      const open = [...(leftmost.get(reference.rule) ?? [])];
      for (let rule = open.pop(); rule !== undefined; rule = open.pop()) {
        if (rule === reference.rule) {
          throw new GrammarError(`line ${line}: the rule "${name}" is left-recursive through others or a group`);
        }
        if (seen.has(rule) || done.has(rule)) continue;
        seen.add(rule);
        open.push(...(leftmost.get(rule) ?? []));
      }
      done.add(reference.rule);
    }
  }

  private nullableRules(): ReadonlySet<number> {
    const found = new Set<number>();
    for (let before = -1; before !== found.size; ) {
      before = found.size;
      for (const [rule, body] of this.bodies) if (isNullable(body, found)) found.add(rule);
    }
    return found;
  }
}

/** `a = a x | b` is `a = b x*`. */
function withoutOwnRecursion(rule: RuleReference, body: Expr): Expr {
  const alternatives = body.kind === "alt" ? body.items : [body];
  const isOwn = (expr: Expr | undefined) => expr?.kind === "rule" && expr.rule === rule.rule;
  const starts: Expr[] = [];
  const rests: Expr[] = [];
  for (const one of alternatives) {
    if (isOwn(one)) continue;
    if (one.kind === "seq" && isOwn(one.items[0])) rests.push(seq(...one.items.slice(1)));
    else starts.push(one);
  }
  if (starts.length === alternatives.length) return body;
  return seq(alt(NEVER, ...starts), repeat(alt(NEVER, ...rests), 0));
}

function isNullable(expr: Expr, rules: ReadonlySet<number>): boolean {
  switch (expr.kind) {
    case "empty":
      return true;
    case "seq":
      return expr.items.every((item) => isNullable(item, rules));
    case "alt":
      return expr.items.some((item) => isNullable(item, rules));
    case "repeat":
      return expr.min === 0 || isNullable(expr.item, rules);
    case "rule":
      return rules.has(expr.rule);
    default:
      return false;
  }
}

/** Rules that a match may begin with. */
function firstRules(expr: Expr, nullable: ReadonlySet<number>): Set<number> {
  switch (expr.kind) {
    case "rule":
      return new Set([expr.rule]);
    case "repeat":
      return firstRules(expr.item, nullable);
    case "alt":
      return new Set(expr.items.flatMap((item) => [...firstRules(item, nullable)]));
    case "seq": {
      const found = new Set<number>();
      for (const item of expr.items) {
        for (const rule of firstRules(item, nullable)) found.add(rule);
        if (!isNullable(item, nullable)) break;
      }
      return found;
    }
    default:
      return new Set();
  }
}
