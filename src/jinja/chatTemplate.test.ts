import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { TemplateLimits } from "./budget.js";
import { ChatTemplate, compileChatTemplate } from "./chatTemplate.js";
import { TemplateError, type TemplateErrorKind } from "./errors.js";
import type { TemplateInput } from "./input.js";

const REFERENCE = new URL("../../test/reference/templates/", import.meta.url);

type Variables = Record<string, TemplateInput>;

/** What Python gave: a text, or the name of its exception and, for raise_exception, its message. */
type Outcome = { text: string } | { error: string; raised: string | null };

function readJson<T>(file: string): T {
  return JSON.parse(readFileSync(new URL(file, REFERENCE), "utf8")) as T;
}

function failure(run: () => unknown): TemplateError {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(TemplateError);
    return error as TemplateError;
  }
  throw new Error("nothing was thrown");
}

function expectOutcome(source: string, variables: Variables, now: string, outcome: Outcome): void {
  const render = () => compileChatTemplate(source).render(variables, { now: new Date(now) });
  if ("text" in outcome) {
    expect(render(), source).toBe(outcome.text);
    return;
  }
  const error = failure(render);
  if (outcome.raised !== null) expect([error.kind, error.reason]).toEqual(["raised", outcome.raised]);
  else if (outcome.error.endsWith("SyntaxError")) expect(error.kind, source).toBe("syntax");
  else expect(error.kind, source).toBe("runtime");
}

describe("what Python's Jinja2 renders", () => {
  const { now, variables, cases } = readJson<{
    now: string;
    variables: Variables;
    cases: (Outcome & { source: string })[];
  }>("constructs.json");

  it("for single constructs", () => {
    expect(cases.length).toBeGreaterThan(200);
    for (const { source, ...outcome } of cases) expectOutcome(source, variables, now, outcome as Outcome);
  });

  it("for every filter of several items and every kind of input", () => {
    const { cases } = readJson<{ cases: Record<string, string | null> }>("inputs.json");
    const rendered = Object.keys(cases).map((source) => {
      try {
        return [source, compileChatTemplate(source).render({})];
      } catch (error) {
        expect(error).toBeInstanceOf(TemplateError);
        return [source, null];
      }
    });
    expect(rendered.length).toBeGreaterThan(2_000);
    expect(Object.fromEntries(rendered)).toEqual(cases);
  });

  const recorded = readJson<{
    now: string;
    conversations: Record<string, Variables>;
    expected: Record<string, Record<string, Outcome>>;
  }>("expected.json");

  it("is recorded for every template", () => {
    const templates = readdirSync(REFERENCE).filter((file) => file.endsWith(".jinja"));
    expect(Object.keys(recorded.expected).sort()).toEqual(templates.sort());
  });

  it.each(Object.keys(recorded.expected))("for %s and all conversations", (file) => {
    const source = readFileSync(new URL(file, REFERENCE), "utf8");
    for (const [name, outcome] of Object.entries(recorded.expected[file]!)) {
      expectOutcome(source, recorded.conversations[name]!, recorded.now, outcome);
    }
  });
});

describe("a template that asks for too much", () => {
  const double = (start: string, step: string) =>
    `{% set ns = namespace(v=${start}) %}{% for i in range(64) %}{% set ns.v = ${step} %}{% endfor %}`;
  const sources: Record<string, string> = {
    "nested loops": "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "a text that doubles": double("'x'", "ns.v + ns.v"),
    "a list that doubles": double("[1]", "ns.v + ns.v"),
    "texts joined": double("'xy'", "[ns.v, ns.v] | join"),
    "texts replaced": double("'x'", "ns.v.replace('x', 'xxxxxxxx')"),
    "a value printed inside itself": "{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns }}",
    "a long repetition": "{{ 'x' * 10 ** 12 }}",
    "a batch filled up": "{{ range(10) | batch(10 ** 9, 'x') | list }}",
    "a slice into empty columns": "{{ [] | slice(10 ** 9) | list }}",
    "a count that is no number": "{{ '' * 10 ** 400 }}{{ [] * 10 ** 400 }}{{ range(10) | batch(10 ** 9, 'x') | list }}",
    "a wide field": "{{ 'x'.ljust(10 ** 12) }}",
    "much output": "{% for a in range(9999) %}{{ 'x' * 1000000 }}{% endfor %}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a loop that calls itself": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "one expression after the other": `{{ 1${" + 1".repeat(30_000)} }}`,
    "one break after the other": `{% for a in b %}${"{% if a %}{% break %}{% endif %}".repeat(4_000)}{% endfor %}`,
    "a source without end": " ".repeat(600_000),
  };

  it.each(Object.entries(sources))("is stopped: %s", (_, source) => {
    const started = process.cpuUsage();
    const error = failure(() => compileChatTemplate(source).render({}));
    expect(["budget", "runtime"]).toContain(error.kind);
    expect(process.cpuUsage(started).user).toBeLessThan(5_000_000);
  });

  it("is stopped by the limits of the call", () => {
    const limited = (source: string, limits: Partial<TemplateLimits>) =>
      failure(() => compileChatTemplate(source).render({}, { limits })).message;
    const turns = "{% for a in range(1000) %}{{ a }}{% endfor %}";
    expect(limited(turns, { steps: 500 })).toMatch(/line 1: the template asks for more than 500 steps/);
    expect(limited("{{ 'abcdef' ~ 'ghi' }}", { textLength: 8 })).toMatch(/a text of more than 8 characters/);
    expect(limited(turns, { characters: 100 })).toMatch(/more than 100 characters of text/);
  });

  it("refuses deep nesting while parsing", () => {
    expect(failure(() => compileChatTemplate(`{{ ${"(".repeat(5_000)}1 }}`)).kind).toBe("syntax");
    expect(failure(() => compileChatTemplate("{% if 1 %}".repeat(5_000))).kind).toBe("syntax");
    const branches = `{% if 0 %}${"{% elif 0 %}".repeat(5_000)}{% endif %}`;
    expect(failure(() => compileChatTemplate(branches)).reason).toBe("more than 50 branches");
    expect(failure(() => compileChatTemplate(`{{ ${"not ".repeat(5_000)}1 }}`)).kind).toBe("syntax");
  });

  it("leaves later renderings alone", () => {
    failure(() => compileChatTemplate("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").render({}));
    expect(compileChatTemplate("{% macro m() %}x{% endmacro %}{{ m() }}").render({})).toBe("x");
  });

  it.each([
    "{{ x.strip() | length }}",
    "{{ x | trim | length }}",
    "{{ x.split() | length }}",
    "{{ x | striptags | length }}",
    "{{ (x % 1) is string }}",
    "{{ x.format(1) }}",
    "{{ x | wordcount }}",
    "{{ x | title | length }}",
    "{{ x.splitlines() | length }}",
    "{{ x | urlencode | length }}",
    "{{ x == x ~ 'a' }}",
  ])("gives work that grows with the text only: %s", (source) => {
    for (const part of [" ", "a ", "<", "%(", "{", "[", "\n", "&", "{a[", "%", "ab "]) {
      const started = process.cpuUsage();
      try {
        compileChatTemplate(source).render({ x: part.repeat(60_000) });
      } catch (error) {
        expect(error).toBeInstanceOf(TemplateError);
      }
      expect(process.cpuUsage(started).user).toBeLessThan(1_000_000);
    }
  });
});

describe("the sandbox", () => {
  it.each([
    "{{ ''.constructor }}",
    "{{ x.constructor }}{{ x['constructor'] }}",
    "{{ x.__proto__ }}{{ x['__proto__'] }}",
    "{{ [].constructor }}{{ (1).constructor }}{{ range.constructor }}{{ range.call }}",
    "{{ toString }}{{ constructor }}{{ __proto__ }}{{ hasOwnProperty }}",
    "{{ x | attr('constructor') }}{{ [x] | map(attribute='constructor') | list | first }}",
    "{{ namespace().fields }}{{ namespace().constructor }}{{ cycler(1).items }}",
    "{% for i in [1] %}{{ loop.items }}{{ loop.constructor }}{{ loop.again }}{% endfor %}",
    "{{ process }}{{ global }}{{ globalThis }}{{ require }}{{ this }}",
    "{{ text }}{{ act }}{{ test }}{{ joiner().call }}",
  ])("shows nothing of the host: %s", (source) => {
    let text = "";
    try {
      text = compileChatTemplate(source).render({ x: { a: 1 } });
    } catch (error) {
      expect((error as TemplateError).kind).toBe("runtime");
    }
    expect(text).toBe("");
  });

  it("has no filter, test or method by the name of a host property", () => {
    for (const source of ["{{ 1 | constructor }}", "{{ 1 | toString }}", "{{ 1 is valueOf }}", "{{ 'a'.valueOf() }}"]) {
      expect(failure(() => compileChatTemplate(source).render({})).kind).toBe("runtime");
    }
  });

  it("never gives text of a template or a message to nunjucks as code", () => {
    const code = '{{ range.constructor("return process")() }}{% set x = 1 %}{# no #}';
    expect(compileChatTemplate(`{% raw %}${code}{% endraw %}`).render({})).toBe(code);
    expect(compileChatTemplate("{{ x }}{{ x | trim }}").render({ x: code })).toBe(code + code);
    expect(compileChatTemplate(`{{ ${JSON.stringify(code)} }}`).render({})).toBe(code);
    expect(compileChatTemplate("{{ {'}}{{ evil': \"')\"}['}}{{ evil'] }}").render({})).toBe("')");
  });

  it("leaves its input unchanged", () => {
    const input = { list: [1, 2], map: { a: 1 } };
    compileChatTemplate("{{ list.pop() }}{% set ns = namespace(map) %}{% set ns.a = 2 %}").render(input);
    expect(input).toEqual({ list: [1, 2], map: { a: 1 } });
  });
});

describe("errors", () => {
  it.each<[source: string, kind: TemplateErrorKind, line: number, message: RegExp]>([
    ["\n\n{% if %}", "syntax", 3, /expected an expression/],
    ["a\n{{ 'b }}", "syntax", 2, /string is not closed/],
    ["\n{% endfor %}", "syntax", 2, /unknown tag 'endfor'/],
    ["\n\n{{ x.y }}", "runtime", 3, /line 3: UndefinedError: 'x' is undefined/],
    ["{% set a = 1 %}\n{% for b in a %}{% endfor %}", "runtime", 2, /'int' object is not iterable/],
    ["\n{{ raise_exception('no way') }}", "raised", 2, /^no way$/],
  ])("say what and where: %j", (source, kind, line, message) => {
    const error = failure(() => compileChatTemplate(source).render({}));
    expect([error.kind, error.line]).toEqual([kind, line]);
    expect(error.message).toMatch(message);
  });

  it("name a variable that is no value", () => {
    const notJson = { f: () => 1 } as unknown as Variables;
    expect(failure(() => compileChatTemplate("").render(notJson)).reason).toMatch(/'f' holds a function/);
  });
});

describe("a compiled template", () => {
  it("is kept by its source", () => {
    expect(compileChatTemplate("{{ 1 }}")).toBe(compileChatTemplate("{{ 1 }}"));
    const first = compileChatTemplate("first");
    for (let index = 0; index < 100; index++) compileChatTemplate(`{{ ${index} }}`);
    expect(compileChatTemplate("first")).not.toBe(first);
  });

  it("knows what it mentions", () => {
    const qwen = new ChatTemplate(readFileSync(new URL("qwen_thinking.jinja", REFERENCE), "utf8"));
    expect(qwen.mentions("enable_thinking")).toBe(true);
    expect(qwen.mentions("developer")).toBe(false);
    expect(new ChatTemplate("{# developer #}{{ m.role == 'developer' }}").mentions("developer")).toBe(true);
    expect(new ChatTemplate("{# developer #}developer{{ 'a developer' }}").mentions("developer")).toBe(false);
  });

  it("tells whether it takes contents apart", () => {
    const takesApart = (file: string) =>
      new ChatTemplate(readFileSync(new URL(file, REFERENCE), "utf8")).usesContentParts;
    expect(["gemma_parts.jinja", "vision_macro.jinja"].map(takesApart)).toEqual([true, true]);
    const whole = ["chatml", "qwen_thinking", "llama3_tools", "mistral_strict", "phi", "deepseek", "turns_plain"];
    for (const name of whole) expect(takesApart(`${name}.jinja`), name).toBe(false);
    const aliased = "{% for m in messages %}{% set c = m['content'] %}{% for p in c %}{% endfor %}{% endfor %}";
    expect(new ChatTemplate(aliased).usesContentParts).toBe(true);
    expect(new ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}").usesContentParts).toBe(false);
  });
});
