// Everything that a template can call charges its work to the budget before it is done. Work is counted, never timed.

import { describe, expect, it } from "vitest";
import type { BinaryOperator } from "./ast.js";
import { attribute, STRING_METHODS } from "./attributes.js";
import { budget, DEFAULT_LIMITS, withBudget } from "./budget.js";
import { compileChatTemplate } from "./chatTemplate.js";
import { TemplateError } from "./errors.js";
import { callValue } from "./evaluate.js";
import { FILTERS, TESTS } from "./filters.js";
import { globalFunctions } from "./globals.js";
import { binary } from "./operators.js";
import { Dict, DictView, Float, Generator, isText, PythonError, Tuple, textOf, type Value } from "./values.js";

type Call = (subject: Value, given: Value[]) => Value;

const NOW = new Date("2026-01-02T03:04:05Z");

/** Everything that can be called, by what a template writes. */
function* calls(): Iterable<[name: string, call: Call]> {
  for (const [name, filter] of Object.entries(FILTERS)) {
    yield [`|${name}`, (subject, positional) => filter(subject, { positional, named: new Map() })];
  }
  const methods: [of: Value, names: string[]][] = [
    ["", Object.keys(STRING_METHODS)],
    [[], ["index", "count", "copy", "pop", "clear"]],
    [new Dict(), ["get", "items", "keys", "values", "copy"]],
  ];
  for (const [of, names] of methods) {
    for (const name of names) {
      yield [
        `${Array.isArray(of) ? "list" : typeof of === "string" ? "str" : "dict"}.${name}`,
        (subject, positional) => callValue(attribute(subject, name), { positional, named: new Map() }),
      ];
    }
  }
  for (const [name, test] of Object.entries(TESTS)) yield [`is ${name}`, (subject, given) => test(subject, ...given)];
  for (const operator of ["+", "-", "*", "/", "//", "%", "**"] satisfies BinaryOperator[]) {
    yield [operator, (subject, [other]) => binary(operator, subject, other ?? null)];
  }
  for (const [name, value] of globalFunctions(NOW)) {
    yield [`${name}()`, (subject, given) => callValue(value, { positional: [subject, ...given], named: new Map() })];
  }
}

/** What a call gives, iterated to its end, and the steps it took; null when it refuses its arguments. */
function measured(call: Call, subject: Value, given: Value[]): { result: Value; steps: number } | null {
  return withBudget(DEFAULT_LIMITS, () => {
    try {
      const value = call(subject, given);
      const result = value instanceof Generator ? [...value.rest()] : value;
      return { result, steps: budget().spent };
    } catch (error) {
      if (error instanceof PythonError || error instanceof TemplateError) return null;
      throw error;
    }
  });
}

/** Elements and, in steps of 16, characters of what a call has made, without what was `known` before. */
function sizeOf(value: Value, known: Set<Value>): number {
  if (typeof value !== "string" && (typeof value !== "object" || value === null)) return 0;
  if (known.has(value)) return 0;
  known.add(value);
  if (isText(value)) return textOf(value).length / 16;
  const items =
    value instanceof Dict
      ? [...value.entries()].flat()
      : Array.isArray(value)
        ? value
        : value instanceof Tuple || value instanceof DictView
          ? value.items
          : [];
  return items.reduce<number>((sum, item) => sum + 1 + sizeOf(item, known), 0);
}

function allIn(values: readonly Value[]): Set<Value> {
  const known = new Set<Value>();
  for (const value of values) sizeOf(value, known);
  return known;
}

/** Values of about `size` characters or elements. */
function subjects(size: number): Value[] {
  const repeated = (text: string) => text.repeat(Math.ceil(size / text.length));
  const numbers = Array.from({ length: size }, (_, index) => index);
  return [
    repeated("aBc d<e>\n'&%\t"),
    repeated("a"),
    repeated("7"),
    repeated("é😀 "),
    repeated("{0} %s %Y"),
    numbers,
    numbers.map((number) => `t${number}`),
    numbers.map((number) => new Tuple([`k${number}`, number])),
    new Dict(numbers.map((number) => [`k${number}`, number])),
    new Tuple(numbers),
  ];
}

/** What may be given to a call, larger than the subjects. */
function* argumentLists(size: number): Iterable<Value[]> {
  const values: Value[] = [
    size,
    "=".repeat(size),
    "upper",
    "a",
    0,
    true,
    [1, 2],
    new Dict([["a", 1]]),
    new Tuple(["a"]),
  ];
  yield [];
  for (const value of values) yield [value];
  for (const first of values.slice(0, 4)) for (const second of values.slice(0, 4)) yield [first, second];
}

/** What looks at a part of a large value only, whatever its size; or at none, as it only raises. */
const CONSTANT_WORK: ReadonlySet<string> = new Set([
  ...["|default", "|d", "|round", "|abs", "|attr", "list.clear", "dict.get", "-", "/", "//", "**"],
  ..."defined undefined none boolean true false string number integer float".split(" ").map((name) => `is ${name}`),
  ..."mapping sequence iterable callable escaped odd even divisibleby filter test"
    .split(" ")
    .map((name) => `is ${name}`),
  ...["range()", "joiner()", "cycler()", "raise_exception()"],
]);

describe("the work of everything that a template can call", () => {
  it.each([...calls()])("is charged for what it makes: %s", (name, call) => {
    let succeeded = 0;
    for (const subject of [...subjects(100), 2, new Float(2.5), 2n ** 4000n]) {
      for (const given of argumentLists(700)) {
        const known = allIn([subject, ...given]);
        const outcome = measured(call, subject, given);
        if (outcome === null) continue;
        succeeded++;
        const made = sizeOf(outcome.result, known);
        const seen = `${String(subject).slice(0, 20)} with ${given.map((value) => String(value).slice(0, 20))}`;
        if (made > outcome.steps + 20) expect.fail(`${outcome.steps} steps for ${made} made of ${seen}`);
      }
    }
    expect(succeeded > 0).toBe(name !== "raise_exception()");
  });

  it.each([...calls()])("is charged for what it reads: %s", (name, call) => {
    const size = 3_200;
    let most = 0;
    for (const [index, subject] of subjects(size).entries()) {
      // An equal value that is another, and one that stands at the end.
      const equals = [[subjects(size)[index]!], [size - 1]];
      for (const given of [...argumentLists(10), ...equals])
        most = Math.max(most, measured(call, subject, given)?.steps ?? 0);
    }
    expect(most >= size / 64, `${most} steps for ${size} elements`).toBe(!CONSTANT_WORK.has(name));
  });
});

describe("a template that asks for too much at once", () => {
  // What is asked for would take more memory than there is, or hours: an error must come before it is begun.
  it.each([
    "{{ range(10) | batch(10 ** 12, 'x') | list }}",
    "{{ range(10) | slice(10 ** 12, 'x') | list }}",
    "{{ 'x' | center(10 ** 12) }}",
    "{{ 'x'.center(10 ** 12) }}{{ 'x'.ljust(10 ** 12) }}",
    "{{ 'x'.ljust(10 ** 7, '=' * 10 ** 7) }}",
    "{{ 'x'.rjust(10 ** 12, '=') }}",
    "{{ '7'.zfill(10 ** 12) }}",
    "{{ ('\t' * 10 ** 6).expandtabs(10 ** 9) }}",
    "{{ 'x' | indent(10 ** 12, true) }}",
    "{{ ('x\n' * 10 ** 6) | indent('=' * 10 ** 6) }}",
    "{{ [[[[1]]]] | tojson(indent=10 ** 12) }}",
    "{{ [[[[1]]]] | tojson(indent='=' * 10 ** 7) }}",
    "{{ (range(100000) | list) | tojson(separators=('=' * 10 ** 6, ':')) }}",
    "{{ (range(100000) | list) | join('=' * 10 ** 6) }}",
    "{{ ('=' * 10 ** 6).join(['x'] * 10 ** 6) }}",
    "{{ ('x' * 10 ** 6).replace('x', '=' * 10 ** 6) }}",
    "{{ ('x' * 10 ** 6) | replace('', '=' * 10 ** 6) }}",
    "{{ 'x' * 10 ** 12 }}",
    "{{ [1] * 10 ** 12 }}",
    "{{ (1,) * 10 ** 12 }}",
    "{{ '' * 10 ** 400 }}{{ 'x' * 10 ** 12 }}",
    "{{ 2 ** (10 ** 12) }}",
    "{% for i in range(100) %}{% set x = 'x' * 10 ** 7 %}{{ x ~ x }}{% endfor %}",
    "{{ ('{0}' * 10 ** 6).format('x' * 10 ** 6) }}",
    "{{ ('{0:9999}' * 10 ** 6).format(1) }}",
    "{{ ('{0:.9999f}' * 10 ** 6).format(1.5) }}",
    "{{ ('{a}' * 10 ** 6).format_map({'a': 'x' * 10 ** 6}) }}",
    "{{ ('%(a)s' * 10 ** 6) % {'a': 'x' * 10 ** 6} }}",
    "{{ ('%(a)9999s' * 10 ** 6) | format(a=1) }}",
    "{{ '%s %s' | format('x' * 10 ** 7, 'y' * 10 ** 7) }}",
    "{{ strftime_now('%c' * 10 ** 6) }}",
    "{{ ('a ' * 8 * 10 ** 6) | wordcount }}",
    "{{ ('a ' * 8 * 10 ** 6) | wordwrap(1) }}",
    "{{ ('<a>' * 5 * 10 ** 6) | striptags }}",
    "{{ ('&' * 10 ** 7) | urlencode }}",
    "{{ ('&' * 10 ** 7) | e }}",
    "{% for i in range(99) %}{{ ('a' * 8 * 10 ** 6).find('b' + 'a' * 4 * 10 ** 6) }}{% endfor %}",
    "{{ ('b' + 'a' * 10 ** 6) in ('a' * 8 * 10 ** 6) }}{% for i in range(99) %}{{ ('b' + 'a' * 10 ** 6) in ('a' * 8 * 10 ** 6) }}{% endfor %}",
    "{% for i in range(9999) %}{{ ('a' * 10 ** 6).strip('b' * 10 ** 5 ~ 'a') }}{% endfor %}",
    "{{ (range(100000) | list) | map(attribute='a.a.a.a.a.a.a.a.a.a' * 1000, default={}) | list }}",
    "{% set x = 'x' * 10 ** 7 %}{% set y = 'x' * 10 ** 7 %}{% for i in range(9999) %}{{ x == y }}{{ x is sameas y }}{% endfor %}",
    "{% set x = 'x' * 10 ** 7 %}{% for i in range(9999) %}{{ {x: 1}[x] }}{% endfor %}",
    "{% set x = 2 ** 8000 %}{% for i in range(99999) %}{{ x }}{{ x | tojson }}{{ x // 3 }}{% endfor %}",
    "{% set ns = namespace(t=(1,)) %}{% for i in range(64) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ {ns.t: 1} }}",
    "{% macro m() %}{{ kwargs }}{{ varargs }}{% endmacro %}{{ m(*([1] * 4 * 10 ** 6)) }}",
    "{{ ('9' * 10 ** 7) | float }}{{ ('9' * 10 ** 7 ~ 'x') | float }}{{ ('9' * 10 ** 7 ~ 'x') | float }}",
    "{{ ('x' * 10 ** 7)[::-1] }}",
    "{{ cycler(*([1] * 10 ** 7)).next() }}",
    "{{ range(0, 10 ** 400) }}",
  ])("is refused: %s", (source) => {
    let failure: unknown = null;
    try {
      compileChatTemplate(source).render({});
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(TemplateError);
    expect(["budget", "runtime"]).toContain((failure as TemplateError).kind);
  });

  it("may not say more than an error needs", () => {
    expect(() => compileChatTemplate("{{ raise_exception('x' * 10 ** 6) }}").render({})).toThrow(/^x{10000}\.\.\.$/);
  });

  it("is compiled in time that grows with its length", () => {
    // No line break after any token, and every name an alias of the one that follows.
    const names = Array.from({ length: 5_000 }, (_, index) => `{% set a${index} = a${index + 1} %}`).join("");
    const source = `${names}{% set a5000 = m.content %}{% for p in a0 %}{% endfor %}`;
    const started = process.cpuUsage();
    expect(compileChatTemplate(source).usesContentParts).toBe(true);
    expect(() => compileChatTemplate(`{{ ${"9".repeat(100_000)} }}`)).toThrow(/more than 4300 digits/);
    expect(process.cpuUsage(started).user).toBeLessThan(5_000_000);
  });
});
