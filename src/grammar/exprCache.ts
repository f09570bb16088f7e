// Expressions that were made before, so that equal parts of schemas are one expression.

import type { Expr } from "./ir.js";

/** Expressions by what they are made of; those made longest ago go first. */
export class ExprCache {
  private readonly known = new Map<string, Expr>();

  constructor(private readonly maxSize: number) {}

  get(key: string, make: () => Expr): Expr {
    let expr = this.known.get(key);
    if (expr === undefined) {
      expr = make();
      if (this.known.size === this.maxSize) this.known.delete(this.known.keys().next().value!);
      this.known.set(key, expr);
    }
    return expr;
  }
}
