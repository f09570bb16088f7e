/**
 * Makes instances of these classes those of the classes of that name in every copy of their module (loaders, bundlers, test runners
 * and hot reload make copies), since copies share engines. Bundlers change the names that classes have.
 */
export function shareErrors(classes: Record<string, { prototype: Error }>): void {
  for (const [name, kind] of Object.entries(classes)) {
    const mark = Symbol.for(`anneal.errors.${name}`);
    Object.defineProperty(kind.prototype, mark, { value: true });
    Object.defineProperty(kind, Symbol.hasInstance, {
      value(this: unknown, value: unknown): boolean {
        // A class that an application derives inherits this, and has its own instances alone.
        if (this !== kind) return Function.prototype[Symbol.hasInstance].call(this as () => void, value);
        return typeof value === "object" && value !== null && mark in value;
      },
    });
  }
}
