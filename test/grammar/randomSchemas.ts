// Random schemas and values, and a validator that knows what they use.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type Schema = Record<string, unknown>;

const isMap = (value: Json): value is { [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** As text, the same for equal values. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_, part: Json) =>
    isMap(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
}

export function isValid(schema: unknown, value: Json): boolean {
  if (typeof schema === "boolean") return schema;
  const s = schema as Schema;
  const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  const types = s.type === undefined ? null : [s.type].flat();
  if (types && !types.includes(type) && !(types.includes("integer") && Number.isInteger(value))) return false;
  const same = (a: unknown, b: unknown) => sorted(a) === sorted(b);
  if (s.enum && !(s.enum as unknown[]).some((one) => same(one, value))) return false;
  if ("const" in s && !same(s.const, value)) return false;
  if (s.anyOf && !(s.anyOf as unknown[]).some((one) => isValid(one, value))) return false;
  if (s.allOf && !(s.allOf as unknown[]).every((one) => isValid(one, value))) return false;
  if (s.oneOf && (s.oneOf as unknown[]).filter((one) => isValid(one, value)).length !== 1) return false;
  if (s.not !== undefined && isValid(s.not, value)) return false;
  const limit = (key: string) => s[key] as number | undefined;
  if (typeof value === "number") {
    if (value < (limit("minimum") ?? -Infinity) || value > (limit("maximum") ?? Infinity)) return false;
    if (value <= (limit("exclusiveMinimum") ?? -Infinity)) return false;
    if (s.multipleOf && value % (s.multipleOf as number) !== 0) return false;
  }
  if (typeof value === "string") {
    const { length } = [...value];
    if (length < (limit("minLength") ?? 0) || length > (limit("maxLength") ?? Infinity)) return false;
    if (s.pattern && !new RegExp(s.pattern as string, "u").test(value)) return false;
  }
  if (Array.isArray(value)) {
    if (value.length < (limit("minItems") ?? 0) || value.length > (limit("maxItems") ?? Infinity)) return false;
    const prefix = (s.prefixItems as unknown[]) ?? [];
    if (!value.every((item, i) => isValid(prefix[i] ?? s.items ?? true, item))) return false;
  }
  if (isMap(value)) {
    const { length } = Object.keys(value);
    if (length < (limit("minProperties") ?? 0) || length > (limit("maxProperties") ?? Infinity)) return false;
    if (!((s.required as string[]) ?? []).every((name) => Object.hasOwn(value, name))) return false;
    const properties = (s.properties as Schema) ?? {};
    const patterns = Object.entries((s.patternProperties as Schema) ?? {});
    for (const [name, member] of Object.entries(value)) {
      const wanted = patterns.filter(([pattern]) => new RegExp(pattern, "u").test(name)).map(([, one]) => one);
      if (name in properties) wanted.push(properties[name]);
      if (wanted.length === 0) wanted.push(s.additionalProperties ?? true);
      if (!wanted.every((one) => isValid(one, member))) return false;
    }
  }
  return true;
}

export class SchemaMaker {
  constructor(private readonly next: () => number) {}

  private int(below: number): number {
    return Math.floor(this.next() * below);
  }

  private pick<T>(list: readonly T[]): T {
    return list[this.int(list.length)]!;
  }

  private maybe(fields: Schema): Schema {
    return this.next() < 0.4 ? fields : {};
  }

  value(depth: number): Json {
    const kind = this.int(depth > 0 ? 8 : 6);
    if (kind === 0) return this.pick([null, true, false]);
    if (kind < 3) return this.pick([0, 1, 2, 3, 5, 10, -1, -7, 0.5, 2.5, 12]);
    if (kind < 6) return this.pick(["", "a", "b", "ab", "aab", "é", "x1", "\n", '"', "long text"]);
    if (kind === 6) return Array.from({ length: this.int(4) }, () => this.value(depth - 1));
    const names = ["a", "b", "c", "x1", "zz"].filter(() => this.next() < 0.4);
    return Object.fromEntries(names.map((name) => [name, this.value(depth - 1)]));
  }

  schema(depth: number): unknown {
    const inner = () => this.schema(depth - 1);
    const kind = this.int(depth > 0 ? 12 : 6);
    switch (kind) {
      case 0:
        return this.pick<unknown>([
          true,
          {},
          { type: "null" },
          { type: ["integer", "string"] },
          { const: this.value(1) },
        ]);
      case 1:
        return { enum: [this.value(1), this.value(1), this.value(0)] };
      case 2:
        return {
          type: "integer",
          ...this.maybe({ minimum: this.int(4) - 2 }),
          ...this.maybe({ maximum: this.int(12) }),
          ...this.maybe({ multipleOf: this.pick([2, 3, 5]) }),
        };
      case 3:
        return {
          type: "number",
          ...this.maybe({ exclusiveMinimum: this.pick([-1, 0, 0.5, 2.5]) }),
          ...this.maybe({ maximum: this.pick([1, 2.5, 10]) }),
        };
      case 4:
      case 5:
        return {
          type: "string",
          ...this.maybe({ minLength: this.int(3) }),
          ...this.maybe({ maxLength: this.int(4) }),
          ...this.maybe({ pattern: this.pick(["^a", "b$", "^[a-c]+$", "\\d", "."]) }),
        };
      case 6:
        return {
          type: "array",
          items: inner(),
          ...this.maybe({ minItems: this.int(3) }),
          ...this.maybe({ maxItems: this.int(4) }),
          ...this.maybe({ prefixItems: [inner(), inner()] }),
        };
      case 7:
        return { [this.pick(["anyOf", "allOf", "oneOf"])]: [inner(), inner()] };
      case 8:
        return { ...(inner() as Schema), not: inner() };
      default: {
        const names = ["a", "b", "c"].filter(() => this.next() < 0.6);
        return {
          type: "object",
          properties: Object.fromEntries(names.map((name) => [name, inner()])),
          ...this.maybe({ required: ["a", "b", "zz"].filter(() => this.next() < 0.5) }),
          ...this.maybe({ additionalProperties: this.next() < 0.5 ? false : inner() }),
          ...this.maybe({ patternProperties: { "^x": inner() } }),
          ...this.maybe({ minProperties: 1 }),
          ...this.maybe({ maxProperties: this.int(4) }),
          "x-property-order": "any",
        };
      }
    }
  }
}
