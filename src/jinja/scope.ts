// Which variables a statement sees.

import type { Target } from "./syntax.js";
import { itemsOf, Namespace, raise, type Value } from "./values.js";

/** Loops, `with` and captured blocks have scopes of their own; what they set is gone after them. */
export class Scope {
  private readonly variables = new Map<string, Value>();

  constructor(private readonly outer: Scope | null) {}

  get(name: string): Value | undefined {
    for (let scope: Scope | null = this; scope !== null; scope = scope.outer) {
      const value = scope.variables.get(name);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  set(name: string, value: Value): void {
    this.variables.set(name, value);
  }

  parent(): Scope {
    return this.outer ?? this;
  }

  /** Assigns to a name, to a field of a namespace, or item by item to several. */
  assign(target: Target, value: Value): void {
    if (target.kind === "name") {
      this.set(target.name, value);
      return;
    }
    if (target.kind === "namespace") {
      const namespace = this.get(target.name);
      if (!(namespace instanceof Namespace)) {
        raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
      }
      namespace.fields.set(target.attribute, value);
      return;
    }
    const items = itemsOf(value);
    const expected = target.items.length;
    if (items.length > expected) raise("ValueError", `too many values to unpack (expected ${expected})`);
    if (items.length < expected) {
      raise("ValueError", `not enough values to unpack (expected ${expected}, got ${items.length})`);
    }
    for (const [index, inner] of target.items.entries()) this.assign(inner, items[index]!);
  }
}
