// The members of an object, one after the other: which may come, which must, in which order, and how many.

import { GrammarError } from "../grammarError.js";
import { alt, EMPTY, type Expr, NEVER, optional, repeat, seq } from "../ir.js";
import type { JsonRules } from "../jsonValues.js";

export interface Members {
  /** Name, colon and value; each comes once at most. */
  declared: readonly { member: Expr; required: boolean }[];
  /** A member with another name; null: there are none. */
  additional: Expr | null;
  min: number;
  /** -1: any number. */
  max: number;
  /** Otherwise declared members come in order, and others after them. */
  anyOrder: boolean;
}

/** Each subset of members that have come is a rule. */
const MOST_IN_ANY_ORDER = 12;
const MOST_STATES = 20_000;

/** The object with its braces. */
export function objectExpr(json: JsonRules, members: Members): Expr {
  if (members.anyOrder && members.declared.length > MOST_IN_ANY_ORDER) {
    throw new GrammarError(`"any" is supported up to ${MOST_IN_ANY_ORDER} properties`, ["x-property-order"]);
  }
  const writer = new MembersWriter(json, members);
  const inside = members.anyOrder ? writer.unordered(0, 0) : writer.ordered(0, 0);
  const mayBeEmpty = members.min === 0 && members.declared.every((one) => !one.required);
  return json.enclosed("{", mayBeEmpty ? optional(inside) : inside, "}");
}

class MembersWriter {
  /** Counts above this one make no difference. */
  private readonly cap: number;
  private readonly known = new Map<string, Expr>();
  private readonly tails: (Expr | undefined)[] = [];
  private readonly firstRequired: number;

  constructor(
    private readonly json: JsonRules,
    private readonly members: Members,
  ) {
    this.cap = Math.max(1, members.min, members.max);
    const first = members.declared.findIndex((one) => one.required);
    this.firstRequired = first < 0 ? members.declared.length : first;
    if (!members.anyOrder && (members.declared.length + 1) * (this.cap + 1) > MOST_STATES) {
      throw new GrammarError("counts so many members that it cannot be enforced", [
        members.max > members.min ? "maxProperties" : "minProperties",
      ]);
    }
  }

  /** Members from the declared one `at` on, when `count` have come. What is empty from the start is left out. */
  ordered(at: number, count: number): Expr {
    if (count === this.cap && this.members.max === -1) return this.tail(at);
    return this.rule(`${at} ${count}`, () => {
      const parts = [this.end(at, count)];
      for (let i = at; i < this.members.declared.length && this.hasRoom(count); i++) {
        const { member, required } = this.members.declared[i]!;
        parts.push(seq(this.separator(count), member, this.ordered(i + 1, this.next(count))));
        if (required) return alt(...parts);
      }
      const { additional, declared } = this.members;
      if (additional !== null && this.hasRoom(count)) {
        parts.push(seq(this.separator(count), additional, this.ordered(declared.length, this.next(count))));
      }
      return alt(...parts);
    });
  }

  /** Members in any order; bit i of `come`: the declared one i has come. */
  unordered(come: number, count: number): Expr {
    return this.rule(`any ${come} ${count}`, () => {
      const { declared, additional, min } = this.members;
      const isComplete = declared.every((one, i) => !one.required || come & (1 << i)) && count >= min && count > 0;
      const parts = [isComplete ? EMPTY : NEVER];
      if (!this.hasRoom(count)) return parts[0]!;
      const next = this.next(count);
      for (const [i, { member }] of declared.entries()) {
        if (come & (1 << i)) continue;
        parts.push(seq(this.separator(count), member, this.unordered(come | (1 << i), next)));
      }
      if (additional !== null) parts.push(seq(this.separator(count), additional, this.unordered(come, next)));
      return alt(...parts);
    });
  }

  /** The rest when only "all required ones" is left to be seen to. */
  private tail(at: number): Expr {
    const { declared, additional } = this.members;
    if (at >= declared.length) return additional === null ? EMPTY : repeat(seq(this.json.comma, additional), 0);
    const known = this.tails[at];
    if (known !== undefined) return known;
    const { member, required } = declared[at]!;
    const one = seq(this.json.comma, member);
    const expr = seq(required ? one : optional(one), this.tail(at + 1));
    // Where the first member may be any of several, the rest after each is shared.
    const isShared = at <= this.firstRequired && this.firstRequired > 0;
    const shared = isShared ? this.json.rules.add(`members from ${at}`, expr) : expr;
    this.tails[at] = shared;
    return shared;
  }

  private end(at: number, count: number): Expr {
    const isComplete = this.members.declared.slice(at).every((one) => !one.required);
    return isComplete && count >= this.members.min && count > 0 ? EMPTY : NEVER;
  }

  private hasRoom(count: number): boolean {
    return this.members.max === -1 || count < this.members.max;
  }

  private next(count: number): number {
    return Math.min(count + 1, this.cap);
  }

  private separator(count: number): Expr {
    return count === 0 ? EMPTY : this.json.comma;
  }

  private rule(key: string, make: () => Expr): Expr {
    let expr = this.known.get(key);
    if (expr === undefined) {
      const reference = this.json.rules.reserve(`members ${key}`);
      this.known.set(key, reference);
      this.json.rules.define(reference, make());
      expr = reference;
    }
    return expr;
  }
}
