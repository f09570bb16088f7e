// The members of an object, one after the other: which may come, which must, in which order, and how many.

import { GrammarError } from "../grammar/grammarError.js";
import { alt, chain, EMPTY, type Expr, NEVER, optional, repeat } from "../grammar/ir.js";
import type { RuleBook } from "../grammar/ruleBook.js";
import type { JsonRules } from "./jsonValues.js";

/** Name, colon and value; comes once at most. */
export interface Member {
  member: Expr;
  required: boolean;
  /** Nothing may follow it; only of members that come in any order. */
  last?: boolean;
}

export interface Members {
  /** These come in order, before all others; once all required ones of them have come, additional ones come in between. */
  ordered: readonly Member[];
  /** These come in any order, between additional ones. */
  loose: readonly Member[];
  /** A member with another name; null: there are none. */
  additional: Expr | null;
  min: number;
  /** -1: any number. */
  max: number;
}

/** Each subset of loose members that have come is a rule. */
export const MAX_LOOSE = 12;
const MAX_STATES = 20_000;
/** Members of one rule where none of them need be shared. */
const MAX_TOGETHER = 64;

/** What stands between two members, and members after it: one expression, of all objects that have them. */
export class Separator {
  private readonly later = new Map<Expr, Expr>();

  constructor(private readonly expr: Expr) {}

  before(member: Expr): Expr {
    let expr = this.later.get(member);
    if (expr === undefined) {
      expr = chain(this.expr, member);
      this.later.set(member, expr);
    }
    return expr;
  }
}

/** The object with its braces. */
export function objectExpr(json: JsonRules, comma: Separator, members: Members): Expr {
  return json.enclosed("{", membersExpr(json.rules, comma, members), "}");
}

/** The members alone, with `separator` between two of them. */
export function membersExpr(rules: RuleBook, separator: Separator, members: Members): Expr {
  const inside = new MembersWriter(rules, separator, members).from(0, 0);
  const needsNone = [...members.ordered, ...members.loose].every((one) => !one.required);
  return members.min === 0 && needsNone ? optional(inside) : inside;
}

class MembersWriter {
  /** Counts above this one make no difference. */
  private readonly cap: number;
  private readonly known = new Map<number, Expr>();
  private readonly tails: (Expr | undefined)[] = [];
  private readonly firstRequired: number;
  private readonly lastRequired: number;

  constructor(
    private readonly rules: RuleBook,
    private readonly separator: Separator,
    private readonly members: Members,
  ) {
    this.cap = Math.max(1, members.min, members.max);
    const first = members.ordered.findIndex((one) => one.required);
    this.firstRequired = first < 0 ? members.ordered.length : first;
    this.lastRequired = members.ordered.findLastIndex((one) => one.required);
    if ((members.ordered.length + 2 ** members.loose.length) * (this.cap + 1) > MAX_STATES) {
      throw new GrammarError("counts so many members that it cannot be enforced", [
        members.max > members.min ? "maxProperties" : "minProperties",
      ]);
    }
  }

  /** Members from the ordered one `at` on, when `count` have come; never empty when none has. */
  from(at: number, count: number): Expr {
    const { ordered } = this.members;
    if (count === this.cap && this.members.max === -1) return this.tail(at);
    if (at === ordered.length) return this.looseFrom(0, count);
    return this.rule(at, count, () => {
      const parts: Expr[] = [];
      const between = this.between(at);
      if (between !== null && this.hasRoom(count)) {
        parts.push(chain(this.separated(between, count), this.from(at, this.next(count))));
      }
      for (const [i, { member, required }] of ordered.entries()) {
        if (i < at) continue;
        if (!this.hasRoom(count)) {
          return ordered.slice(at).some((one) => one.required) ? NEVER : this.from(ordered.length, count);
        }
        parts.push(chain(this.separated(member, count), this.from(i + 1, this.next(count))));
        if (required) return alt(...parts);
      }
      return alt(...parts, this.from(ordered.length, count));
    });
  }

  /** Members in any order; bit i of `come`: the loose one i has come. */
  private looseFrom(come: number, count: number): Expr {
    const { ordered, loose, additional, min } = this.members;
    const isComplete = (come: number, count: number) =>
      loose.every((one, i) => !one.required || come & (1 << i)) && count >= min && count > 0;
    const end = isComplete(come, count) ? EMPTY : NEVER;
    if (!this.hasRoom(count)) return end;
    return this.rule(ordered.length + come, count, () => {
      const next = this.next(count);
      const parts = [end];
      for (const [i, { member, last }] of loose.entries()) {
        const after = come | (1 << i);
        if (come === after) continue;
        const rest = last ? (isComplete(after, next) ? EMPTY : NEVER) : this.looseFrom(after, next);
        parts.push(chain(this.separated(member, count), rest));
      }
      if (additional !== null) parts.push(chain(this.separated(additional, count), this.looseFrom(come, next)));
      return alt(...parts);
    });
  }

  /** The rest when only "all required ones" is left to be seen to. */
  private tail(at: number): Expr {
    const { ordered, loose, additional } = this.members;
    if (at >= ordered.length) {
      if (loose.length > 0) return this.looseFrom(0, this.cap);
      return additional === null ? EMPTY : repeat(this.separated(additional, this.cap), 0);
    }
    const known = this.tails[at];
    if (known !== undefined) return known;
    // Where the first member may be any of several, the rest after each is shared. Others are put together in parts, as
    // a rule is one automaton.
    const isShared = at <= this.firstRequired && this.firstRequired > 0;
    const past = isShared ? at + 1 : Math.min(ordered.length, (Math.floor(at / MAX_TOGETHER) + 1) * MAX_TOGETHER);
    const parts: Expr[] = [];
    for (let i = at; i < past; i++) {
      const { member, required } = ordered[i]!;
      const one = this.separated(member, this.cap);
      const between = this.between(i);
      if (between !== null) parts.push(repeat(this.separated(between, this.cap), 0));
      parts.push(required ? one : optional(one));
    }
    const expr = chain(...parts, this.tail(past));
    const shared = isShared || at % MAX_TOGETHER === 0 ? this.rules.add(expr) : expr;
    this.tails[at] = shared;
    return shared;
  }

  /** What may come before the ordered member `at`, whatever came before; null: nothing. */
  private between(at: number): Expr | null {
    return at > this.lastRequired && this.members.loose.length === 0 ? this.members.additional : null;
  }

  private hasRoom(count: number): boolean {
    return this.members.max === -1 || count < this.members.max;
  }

  private next(count: number): number {
    return Math.min(count + 1, this.cap);
  }

  /** A member when `count` have come; one expression, whatever follows it. */
  private separated(member: Expr, count: number): Expr {
    return count === 0 ? member : this.separator.before(member);
  }

  /** `place`: of the ordered members, then the sets of loose ones. */
  private rule(place: number, count: number, make: () => Expr): Expr {
    return this.rules.once(this.known, place * (this.cap + 1) + count, make);
  }
}
