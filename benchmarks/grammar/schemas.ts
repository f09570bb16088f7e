/** JSON Schemas as applications send them (tool parameters, records of APIs, extractions, nested lists), with values of each. */

/** Deterministic random numbers: a linear congruential generator's upper bits. */
export class Dice {
  private state: number;
  constructor(seed: number) {
    this.state = seed >>> 0;
  }
  below(n: number): number {
    this.state = (Math.imul(this.state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.state / 2 ** 32) * n);
  }
  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }
}

export interface SchemaCase {
  schema: object;
  /** Valid instances, as text in the three usual layouts. */
  texts: string[];
}

/** A schema, and a maker of its values. */
interface Part {
  schema: Record<string, unknown>;
  value(dice: Dice): unknown;
}

const words =
  "order invoice shipping customer the quick summary of a meeting with Zoë, née Müller: paid “late” \n naïve café 東京 total 42% done/failed see https://example.com/a?b=c".split(
    " ",
  );
const names =
  "id name title description status type created_at updated_at email url price quantity currency address street city country zip phone tags items metadata score priority owner assignee comment language category query limit offset sort filters start_date end_date enabled version path content reason confidence location latitude longitude".split(
    " ",
  );
const sentence = (dice: Dice): string => Array.from({ length: 1 + dice.below(12) }, () => dice.pick(words)).join(" ");
const two = (n: number): string => String(n).padStart(2, "0");
const date = (dice: Dice): string => `20${two(dice.below(30))}-${two(1 + dice.below(12))}-${two(1 + dice.below(28))}`;
const hex = (dice: Dice, n: number): string => Array.from({ length: n }, () => dice.below(16).toString(16)).join("");

const formats: Record<string, (dice: Dice) => string> = {
  date,
  "date-time": (dice) => `${date(dice)}T${two(dice.below(24))}:${two(dice.below(60))}:${two(dice.below(60))}Z`,
  email: (dice) => `${dice.pick(["ada", "bob.smith", "info"])}@example.${dice.pick(["com", "org"])}`,
  uuid: (dice) => [8, 4, 4, 4, 12].map((n) => hex(dice, n)).join("-"),
  ipv4: (dice) => Array.from({ length: 4 }, () => dice.below(256)).join("."),
};

function leaf(dice: Dice): Part {
  const described = dice.below(2) === 0 ? { description: sentence(dice) } : {};
  switch (dice.below(10)) {
    case 0:
    case 1:
    case 2:
      return { schema: { type: "string", ...described }, value: sentence };
    case 3: {
      const most = 20 + dice.below(200);
      return { schema: { type: "string", minLength: 1, maxLength: most }, value: (d) => sentence(d).slice(0, most) };
    }
    case 4: {
      const values = Array.from({ length: 2 + dice.below(8) }, (_, i) => `${dice.pick(names)}_${i}`);
      return { schema: { type: "string", enum: values, ...described }, value: (d) => d.pick(values) };
    }
    case 5: {
      const format = dice.pick(Object.keys(formats));
      return { schema: { type: "string", format }, value: (d) => formats[format]!(d) };
    }
    case 6: {
      const least = dice.below(10);
      const most = least + 1 + dice.below(1000);
      return {
        schema: { type: "integer", minimum: least, maximum: most },
        value: (d) => least + d.below(most - least + 1),
      };
    }
    case 7:
      return { schema: { type: "number", ...described }, value: (d) => d.below(100000) / 100 - 200 };
    case 8:
      return { schema: { type: "boolean", ...described }, value: (d) => d.below(2) === 0 };
    default:
      return {
        schema: { type: "string", pattern: "^[A-Z]{2,3}-[0-9]{4,6}$" },
        value: (d) => `${d.pick(["AB", "XYZ"])}-${10000 + d.below(90000)}`,
      };
  }
}

function part(dice: Dice, depth: number): Part {
  const kind = depth === 0 ? 9 : dice.below(10);
  if (kind < 2) return object(dice, depth - 1);
  if (kind < 4) {
    const item = part(dice, depth - 1);
    const most = 2 + dice.below(8);
    return {
      schema: { type: "array", items: item.schema, ...(dice.below(2) === 0 ? { maxItems: most } : {}) },
      value: (d) => Array.from({ length: d.below(Math.min(most, 4) + 1) }, () => item.value(d)),
    };
  }
  if (kind === 4) {
    const item = leaf(dice);
    return {
      schema: { anyOf: [item.schema, { type: "null" }] },
      value: (d) => (d.below(2) === 0 ? null : item.value(d)),
    };
  }
  return leaf(dice);
}

function object(dice: Dice, depth: number): Part {
  const keys = [...new Set(Array.from({ length: 2 + dice.below(9) }, () => dice.pick(names)))];
  const parts = keys.map((key) => ({ key, ...part(dice, depth), isRequired: dice.below(10) < 7 }));
  const schema: Record<string, unknown> = {
    type: "object",
    properties: Object.fromEntries(parts.map(({ key, schema }) => [key, schema])),
    required: parts.filter(({ isRequired }) => isRequired).map(({ key }) => key),
  };
  if (dice.below(3) > 0) schema.additionalProperties = false;
  return {
    schema,
    value: (d) =>
      Object.fromEntries(
        parts.filter(({ isRequired }) => isRequired || d.below(2) === 0).map(({ key, value }) => [key, value(d)]),
      ),
  };
}

/** As Python's json.dumps separates. */
function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(([key, member]) => `${JSON.stringify(key)}: ${spaced(member)}`);
  return `{${members.join(", ")}}`;
}

export function schemaCases(count: number): SchemaCase[] {
  return Array.from({ length: count }, (_, seed) => {
    const dice = new Dice(seed * 7919 + 1);
    const { schema, value } = object(dice, 1 + (seed % 3));
    const values = Array.from({ length: 3 }, () => value(dice));
    return { schema, texts: [JSON.stringify(values[0]), spaced(values[1]), JSON.stringify(values[2], null, 2)] };
  });
}
