import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseToolCalls } from "../../../test/fixtures/toolParsing.js";
import { matches } from "../../../test/grammar/irMatcher.js";
import { GrammarError } from "../../grammar/grammarError.js";
import { parseJsonText } from "../../json.js";
import { constraintGrammar } from "../../structuredOutputs/constraint.js";
import {
  compileChatTemplate,
  createCallsOrTextParser,
  renderConversation,
  TOOL_FORMATS,
  TOOL_SYNTAX,
  type ToolFormat,
} from "../../text/index.js";
import { callsOrForm, jsonFormOf, type RequestConstraint } from "./constraint.js";
import { toolCallConstraint } from "./toolCallConstraint.js";

const add = {
  type: "function" as const,
  function: {
    name: "add",
    parameters: {
      type: "object",
      properties: {
        label: { type: "string", maxLength: 12 },
        count: { type: "integer", minimum: 0 },
        exact: { type: "boolean" },
        tags: { type: "array", items: { $ref: "#/$defs/tag" } },
        unit: { enum: ["C", null, 7] },
      },
      required: ["count"],
      $defs: { tag: { enum: ["a", "b"] } },
    },
  },
};
const stop = { type: "function" as const, function: { name: "stop" } };
const tools = [add, stop] as never;
const offered = new Map<string, unknown>([
  ["add", add.function.parameters],
  ["stop", undefined],
]);

/** What a template of the format holds where it has a choice, and calls as models of the family write them. */
const written: Record<ToolFormat, { template: string; good: string; two: string; bad: string[] }> = {
  harmony: {
    template: "",
    good: '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"label": "x\\"y", "count": 2, "exact": true}',
    two: '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"count": 2}<|call|><|start|>assistant<|channel|>commentary to=functions.stop <|constrain|>json<|message|>{}',
    bad: [
      '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"count": -2}',
      "<|channel|>commentary to=functions.other <|constrain|>json<|message|>{}",
    ],
  },
  gemma4: {
    template: "",
    good: '<|tool_call>call:add{count:2,exact:true,label:<|"|>x"y<|"|>}<tool_call|>',
    two: "<|tool_call>call:add{count:2}<tool_call|><|tool_call>call:stop{}<tool_call|>",
    bad: [
      "<|tool_call>call:add{}<tool_call|>",
      "<|tool_call>call:add{count:-2}<tool_call|>",
      '<|tool_call>call:add{label:<|"|>x<|"|>,count:2}<tool_call|>',
      '<|tool_call>call:add{count:2,label:<|"|>longer than it may be<|"|>}<tool_call|>',
      '<|tool_call>call:add{count:2,label:"x"}<tool_call|>',
      "<|tool_call>call:add{count:2, exact:true}<tool_call|>",
      "<|tool_call>call:add{count:2,other:1}<tool_call|>",
      "<|tool_call>call:other{}<tool_call|>",
    ],
  },
  hermes: {
    template: "",
    good: '<tool_call>\n{"name": "add", "arguments": {"label": "x\\"y", "count": 2, "exact": true}}\n</tool_call>',
    two: '<tool_call>\n{"name": "add", "arguments": {"count": 2}}\n</tool_call>\n<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>',
    bad: ['<tool_call>\n{"name": "add", "arguments": {"count": -2}}\n</tool_call>', "no"],
  },
  llama3: {
    template: "",
    good: '{"name": "add", "parameters": {"label": "x\\"y", "count": 2, "exact": true}}',
    two: '{"name": "add", "parameters": {"count": 2}}; {"name": "stop", "parameters": {}}',
    bad: ['{"name": "add", "parameters": {}}'],
  },
  qwen3_coder: {
    template: "",
    good: '<tool_call>\n<function=add>\n<parameter=label>\nx"y\n</parameter>\n<parameter=count>\n2\n</parameter>\n<parameter=exact>\ntrue\n</parameter>\n</function>\n</tool_call>',
    two: "<tool_call>\n<function=add>\n<parameter=count>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=stop>\n</function>\n</tool_call>",
    bad: [
      "<tool_call>\n<function=add>\n</function>\n</tool_call>",
      "<tool_call>\n<function=add>\n<parameter=count>\ntwo\n</parameter>\n</function>\n</tool_call>",
      "<tool_call>\n<function=add>\n<parameter=label>\nlonger than it may be\n</parameter>\n<parameter=count>\n2\n</parameter>\n</function>\n</tool_call>",
      "<tool_call>\n<function=add>\n<parameter=count>\n2\n</parameter>\n<parameter=other>\n2\n</parameter>\n</function>\n</tool_call>",
    ],
  },
  granite: {
    template: "",
    good: '<|tool_call|>[{"name": "add", "arguments": {"label": "x\\"y", "count": 2, "exact": true}}]',
    two: '<|tool_call|>[{"name": "add", "arguments": {"count": 2}}, {"name": "stop", "arguments": {}}]',
    bad: ['<|tool_call|>[{"name": "other", "arguments": {}}]', "<|tool_call|>[]"],
  },
  mistral: {
    template: "{{ '[TOOL_CALLS]' + name + '[ARGS]' }}",
    good: '[TOOL_CALLS]add[ARGS]{"label": "x\\"y", "count": 2, "exact": true}',
    two: '[TOOL_CALLS]add[ARGS]{"count": 2}[TOOL_CALLS]stop[ARGS]{}',
    bad: ['[TOOL_CALLS]add[ARGS]{"count": "2"}', "[TOOL_CALLS]"],
  },
  phi4: {
    template: "{{ '<|tool|>' + message['tools'] + '<|/tool|>' }}",
    good: '<|tool_call|>[{"name": "add", "arguments": {"label": "x\\"y", "count": 2, "exact": true}}]<|/tool_call|>',
    two: '<|tool_call|>[{"name": "add", "arguments": {"count": 2}}, {"name": "stop", "arguments": {}}]<|/tool_call|>',
    bad: ['<|tool_call|>[{"name": "add", "arguments": {"count": 2}}]'],
  },
  lfm2: {
    template: "",
    good: '<|tool_call_start|>[add(label="x\\"y", count=2, exact=True)]<|tool_call_end|>',
    two: "<|tool_call_start|>[add(count=2), stop()]<|tool_call_end|>",
    bad: ["<|tool_call_start|>[add()]<|tool_call_end|>", "<|tool_call_start|>[stop()]", "[stop()]"],
  },
  pythonic: {
    template: "",
    good: '[add(label="x\\"y", count=2, exact=True)]',
    two: "[add(count=2), stop()]",
    bad: ["[add()]", '[add(count="2")]', "[add(count=2, exact=true)]", "[add(count=2), ]"],
  },
};

const grammarOf = (format: ToolFormat, template: string, name: string | null, several: boolean) => {
  const { constraint } = toolCallConstraint(TOOL_SYNTAX[format].texts(template), tools, name, several);
  return constraintGrammar(constraint, { specialTokens: new Map(), thoughts: null });
};

const WITHOUT_OBJECTS = [
  { type: "string" },
  { type: ["integer", "null"] },
  { enum: ["a"] },
  { const: 5 },
  { anyOf: [{ type: "string" }, { type: "array" }] },
  { $ref: "#/$defs/a", $defs: { a: { type: "string" } } },
  { $schema: "http://json-schema.org/draft-07/schema#", $ref: "#/$defs/a", $defs: { a: { type: "string" } } },
];

describe.each(TOOL_FORMATS)("arguments of %s calls", (format) => {
  const { template } = written[format];
  const constraintOf = (parameters: object, name: string | null) => {
    const asked = { type: "function", function: { name: "ask", parameters, strict: true } };
    return toolCallConstraint(TOOL_SYNTAX[format].texts(template), [add, asked] as never, name, true);
  };
  const compile = ({ constraint }: RequestConstraint) =>
    constraintGrammar(constraint, { specialTokens: new Map(), thoughts: null });

  test.each(WITHOUT_OBJECTS)("are objects, or refused where they are: %j", (parameters) => {
    for (const name of [null, "ask"]) {
      const wanted = constraintOf(parameters, name);
      let refused: GrammarError | undefined;
      try {
        compile(wanted);
      } catch (error) {
        refused = error as GrammarError;
      }
      expect(refused).toBeInstanceOf(GrammarError);
      expect(refused!.message).toContain("object");
      expect(wanted.locate(refused!.path)).toEqual(["tools", "1", "function", "parameters"]);
    }
  });

  test("are the objects among what a schema allows", () => {
    const good = written[format].good.replace("add", "ask");
    const bad =
      TOOL_SYNTAX[format].texts(template).style === "json_arguments" ? good.replace(/\{"label.*?\}/, "null") : "";
    for (const parameters of [{ type: ["object", "null"] }, { type: "object", nullable: true }, {}]) {
      const grammar = compile(constraintOf(parameters, "ask"));
      expect([matches(grammar, good), matches(grammar, bad)]).toEqual([true, false]);
    }
  });
});

describe.each(TOOL_FORMATS)("forced calls: %s", (format) => {
  const { template, good, two, bad } = written[format];

  test("are written as models of the family write them, and read back", () => {
    expect(matches(grammarOf(format, template, "add", true), good)).toBe(true);
    expect(matches(grammarOf(format, template, null, false), good)).toBe(true);
    const haveOne = TOOL_SYNTAX[format].texts(template).between === null;
    expect(matches(grammarOf(format, template, null, true), two)).toBe(!haveOne);
    expect(matches(grammarOf(format, template, null, false), two)).toBe(false);
    const { content, toolCalls } = parseToolCalls(format, good, offered);
    expect(content).toBe("");
    expect(toolCalls.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual([
      ["add", { label: 'x"y', count: 2, exact: true }],
    ]);
    expect(parseToolCalls(format, two, offered).toolCalls.map((call) => call.name)).toEqual(["add", "stop"]);
  });

  test.each(bad)("have arguments that their function allows: not %j", (text) => {
    expect(matches(grammarOf(format, template, null, true), text)).toBe(false);
  });
});

describe.each(TOOL_FORMATS)("calls or a form: %s", (format) => {
  const { template, good, two, bad } = written[format];
  const texts = TOOL_SYNTAX[format].texts(template);
  const beginnings = [add, stop].map((tool) => texts.open + texts.head(tool.function.name));
  const formOf = (schema: object) =>
    jsonFormOf({ response_format: { type: "json_schema", json_schema: { schema } } } as never)!;
  const form = formOf({ type: ["object", "array"], required: ["note"] });
  const calls = (several: boolean) => toolCallConstraint(texts, tools, null, several);
  const compile = ({ constraint }: RequestConstraint) =>
    constraintGrammar(constraint, { specialTokens: new Map(), thoughts: null });

  const read = (text: string, size: number, asTheyCome: boolean) => {
    const parser = createCallsOrTextParser(format, asTheyCome, offered, beginnings);
    let content = "";
    const made: { name: string; arguments: string }[] = [];
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
      text.slice(i * size, (i + 1) * size),
    );
    for (const delta of [...pieces.map((piece) => parser.push(piece)), parser.flush()]) {
      content += delta.content;
      for (const { index, name, arguments: more } of delta.toolCalls) {
        if (name !== undefined) made[index] = { name, arguments: "" };
        made[index]!.arguments += more;
      }
    }
    return { content, calls: made, hasWhole: parser.firstWhole === 0 };
  };

  test("the grammar has both, and nothing beside or between them", () => {
    const either = compile(callsOrForm(calls(true), form));
    const value = '{"note": "a"}';
    const allowed = texts.between === null ? [good] : [good, two];
    for (const text of [...allowed, value, "[1, true]"]) expect([text, matches(either, text)]).toEqual([text, true]);
    for (const text of [
      `Let me see. ${good}`,
      good + value,
      value + good,
      ...bad.filter((one) => one !== "no"),
      "no",
    ]) {
      // Of some formats a faulty call is JSON, and JSON may be of the form.
      if (!text.startsWith("{")) expect([text, matches(either, text)]).toEqual([text, false]);
    }
    expect(matches(compile(callsOrForm(calls(false), formOf({ type: "null" }))), two)).toBe(false);
  });

  test("what is wrong is told of the tool or of the form", () => {
    const refused = (wanted: RequestConstraint) => {
      try {
        compile(wanted);
      } catch (error) {
        return wanted.locate((error as GrammarError).path);
      }
      throw new Error("compiled");
    };
    const odd = { type: "object", properties: { x: { type: "string", pattern: "(?<=a)b" } } };
    const asking = { type: "function", function: { name: "ask", parameters: odd } };
    const tail = ["properties", "x", "pattern"];
    const oddCalls = toolCallConstraint(texts, [add, asking] as never, null, true);
    expect(refused(callsOrForm(oddCalls, form))).toEqual(["tools", "1", "function", "parameters", ...tail]);
    expect(refused(callsOrForm(calls(true), formOf(odd)))).toEqual([
      ...["response_format", "json_schema", "schema"],
      ...tail,
    ]);
  });

  test("calls are read, whole and in pieces", () => {
    for (const text of [good, two, `\n\n${good}`]) {
      const expected = parseToolCalls(format, text, offered).toolCalls;
      for (const size of [1, 2, 3, 7, text.length]) {
        for (const asTheyCome of [true, false]) {
          const found = read(text, size, asTheyCome);
          expect(found.content.trim()).toBe("");
          expect([found.calls, found.hasWhole]).toEqual([expected, true]);
        }
      }
    }
  });

  test("a text in the form is content, whatever it holds", () => {
    const held = [
      ...["<tool_call><function=stop></function></tool_call>", "[TOOL_CALLS]stop[ARGS]{}", "```tool_code stop()```"],
      ...["<|python_tag|>", "[stop()]", good, two],
    ];
    const values = [...held.map((note) => ({ note })), { name: "stop" }, { name: "stop", note: "" }, [good], ["stop"]];
    for (const text of [...values.map((value) => JSON.stringify(value)), '{"name": "stop", "param', "{", ""]) {
      for (const size of [1, 2, 5, text.length || 1]) {
        for (const asTheyCome of [true, false]) {
          expect(read(text, size, asTheyCome)).toEqual({ content: text, calls: [], hasWhole: false });
        }
      }
    }
  });
});

test("a text in the form that begins as a call is one only where it is a whole one", () => {
  const { head, open } = TOOL_SYNTAX.llama3.texts("");
  const text = '{"name": "add", "parameters": {"count": 2}, "note": ""}';
  const parser = createCallsOrTextParser("llama3", true, offered, [open + head("add")]);
  const deltas = [...[...text].map((letter) => parser.push(letter)), parser.flush()];
  expect(deltas.map(({ content }) => content).join("")).toBe(text);
  expect(deltas.flatMap(({ toolCalls }) => toolCalls)).toEqual([]);
});

test("values of every kind in parameters that are no JSON object", () => {
  const call = (key: string, value: string) =>
    `<tool_call>\n<function=add>\n${[
      ["label", "a"],
      ["count", "1"],
    ]
      .map(([name, text]) => (name === key ? "" : `<parameter=${name}>\n${text}\n</parameter>\n`))
      .join("")}<parameter=${key}>\n${value}\n</parameter>\n</function>\n</tool_call>`;
  const grammar = grammarOf("qwen3_coder", "", "add", true);
  for (const value of ['["a", "b"]', "[]"])
    expect([value, matches(grammar, call("tags", value))]).toEqual([value, true]);
  for (const value of ['["c"]', "a"]) expect([value, matches(grammar, call("tags", value))]).toEqual([value, false]);
  for (const value of ["C", "null", "7"]) expect([value, matches(grammar, call("unit", value))]).toEqual([value, true]);
  for (const value of ['"C"', "F", "8"]) expect([value, matches(grammar, call("unit", value))]).toEqual([value, false]);
  const python = grammarOf("pythonic", "", "add", true);
  for (const value of ['"C"', "None", "7"]) expect(matches(python, `[add(count=1, unit=${value})]`)).toBe(true);
  for (const value of ["null", "C"]) expect(matches(python, `[add(count=1, unit=${value})]`)).toBe(false);
});

test("numbers of parameters are as they are spelled, and read back as numbers", () => {
  const values = parseJsonText('{"properties": {"x": {"enum": [1.50, 2.0, 12345678901234567890]}}}', "spellings");
  const given = [new Number(2), new Number(1.5)];
  for (const [parameters, numbers] of [
    [values, ["1.50", "2", "12345678901234567890"]],
    [{ properties: { x: { enum: given } } }, ["2", "1.5"]],
  ] as const) {
    const tool = { type: "function", function: { name: "add", parameters } };
    const { constraint } = toolCallConstraint(TOOL_SYNTAX.qwen3_coder.texts(""), [tool] as never, "add", false);
    const grammar = constraintGrammar(constraint, { specialTokens: new Map(), thoughts: null });
    for (const number of [...numbers, "1.500", "2.0"]) {
      const text = `<tool_call>\n<function=add>\n<parameter=x>\n${number}\n</parameter>\n</function>\n</tool_call>`;
      expect([number, matches(grammar, text)]).toEqual([number, (numbers as readonly string[]).includes(number)]);
      const { toolCalls } = parseToolCalls("qwen3_coder", text, new Map([["add", parameters]]));
      expect(toolCalls[0]!.arguments.replace(/\s/g, "")).toBe(`{"x":${number}}`);
    }
  }
});

describe("Gemma 4's calls", () => {
  const grammarFor = (properties: Record<string, unknown>, specialTokens = new Map<string, number>()) => {
    const tool = { type: "function", function: { name: "ask", parameters: { type: "object", properties } } };
    const { constraint } = toolCallConstraint(TOOL_SYNTAX.gemma4.texts(""), [tool] as never, "ask", false);
    return constraintGrammar(constraint, { specialTokens, thoughts: null });
  };
  const call = (given: string) => `<|tool_call>call:ask{${given}}<tool_call|>`;
  const expectCalls = (properties: Record<string, unknown>, good: string[], bad: string[]) => {
    const grammar = grammarFor(properties);
    for (const given of good) expect([given, matches(grammar, call(given))]).toEqual([given, true]);
    for (const given of bad) expect([given, matches(grammar, call(given))]).toEqual([given, false]);
    for (const given of good) expect(parseToolCalls("gemma4", call(given)).toolCalls).toHaveLength(1);
  };

  test("have members in the order of their names, nested ones too", () => {
    const inner = { type: "object", properties: { d: { type: "null" }, C: { type: "null" } }, required: ["d", "C"] };
    expectCalls(
      { b: inner, A: { type: "array", items: inner } },
      ["", "A:[],b:{C:null,d:null}", "A:[{C:null,d:null},{C:null,d:null}]"],
      ["b:{C:null,d:null},A:[]", "b:{d:null,C:null}", "b:{C:null}"],
    );
  });

  test("have names without marks, unless they could not be told from what follows", () => {
    const number = { type: "number" };
    expectCalls(
      { "first name": number, größe: number, $a: number },
      ["$a:1,first name:2,größe:0.5"],
      ['<|"|>$a<|"|>:1', '"$a":1'],
    );
    expectCalls({ "a:b": number, "": number }, ['<|"|><|"|>:1,<|"|>a:b<|"|>:2'], ["a:b:1", ":1"]);
  });

  test("have texts as their schema says, up to the mark that ends them", () => {
    const marked = (text: string) => `<|"|>${text}<|"|>`;
    const texts = (...all: string[]) => all.map((text) => `x:${marked(text)}`);
    expectCalls({ x: { type: "string", pattern: '^a"*$' } }, texts("a", 'a""'), [...texts("b", 'a\\"'), 'x:"a"']);
    expectCalls({ x: { enum: ["a", 'b"', 1, null] } }, [...texts("a", 'b"'), "x:1", "x:null"], texts("c"));
    expectCalls(
      { x: { type: "string", minLength: 2, maxLength: 3 } },
      texts("<|", "a\nb"),
      texts("a", "abcd", '<|"|>'),
    );
    expectCalls({ x: {} }, [...texts("}"), `x:{a:[${marked("b")},-1.5,{}]}`], ["x:{'a':1}", "x:None"]);
  });

  test("are allowed as the template writes them, and read back as they were", () => {
    let state = 3;
    const random = (below: number) => {
      state = (state * 1103515245 + 12345) % 2 ** 31;
      return Math.floor((state / 2 ** 31) * below);
    };
    const pick = <T>(all: readonly T[]) => all[random(all.length)]!;
    const names = ["a", "B", "c_d", "x-y", "first name", "größe", "$r", "1st", "null", "call"];
    const texts = [
      "",
      "x",
      "a,b",
      "}",
      "{",
      "<|",
      '"',
      "\\n",
      "\n",
      "é😀",
      ":",
      "<tool_call|>",
      "null",
      "1",
      " a ",
      "|>",
    ];
    const value = (depth: number): unknown => {
      const kinds: (() => unknown)[] = [
        ...[() => null, () => random(2) === 0, () => random(1000) - 500, () => random(100) / 8],
        () => pick(texts) + pick(texts),
        () => Array.from({ length: random(4) }, () => value(depth + 1)),
        () => given(depth + 1),
      ];
      return pick(depth > 3 ? kinds.slice(0, 5) : kinds)();
    };
    const given = (depth: number) =>
      Object.fromEntries(Array.from({ length: random(4) }, () => [pick(names), value(depth)]));
    const schemaOf = (one: unknown): object => {
      if (one === null) return { type: "null" };
      if (Array.isArray(one)) return { type: "array", items: one.length > 0 ? { anyOf: one.map(schemaOf) } : {} };
      if (typeof one !== "object") return { type: typeof one };
      const properties = Object.entries(one).map(([name, member]) => [name, schemaOf(member)]);
      return { type: "object", properties: Object.fromEntries(properties), required: Object.keys(one) };
    };
    const source = readFileSync(new URL("../../../test/reference/templates/gemma4.jinja", import.meta.url), "utf8");
    const template = compileChatTemplate(source);
    for (let round = 0; round < 200; round++) {
      const parameters = given(0);
      const made = { id: "a", type: "function", function: { name: "ask", arguments: JSON.stringify(parameters) } };
      const messages = [
        { role: "user", content: "Go" },
        { role: "assistant", content: null, tool_calls: [made] },
      ];
      const text = renderConversation(template, { messages, addGenerationPrompt: false });
      const shown = text.slice(text.indexOf("<|tool_call>"), text.lastIndexOf("<|tool_response>"));
      const { content, toolCalls } = parseToolCalls("gemma4", shown);
      expect([content, toolCalls.map((one) => JSON.parse(one.arguments))], shown).toEqual(["", [parameters]]);
      const { properties = {} } = schemaOf(parameters) as { properties?: Record<string, unknown> };
      expect([shown, matches(grammarFor(properties), shown)]).toEqual([shown, true]);
    }
  });

  test("have marks that are tokens where the vocabulary has them", () => {
    const marks = ["<|tool_call>", "<tool_call|>", '<|"|>'];
    const grammar = grammarFor({ x: { type: "string" } }, new Map(marks.map((mark, id) => [mark, id])));
    const asTokens = (text: string) =>
      marks.reduce((all, mark, id) => all.replaceAll(mark, String.fromCharCode(0xd800 + id)), text);
    expect(matches(grammar, asTokens(call('x:<|"|>a<|"|>')))).toBe(true);
    expect(matches(grammar, call('x:<|"|>a<|"|>'))).toBe(false);
  });

  test("have items that differ where these are written as in JSON", () => {
    const of = (items: object) => ({ x: { type: "array", items, uniqueItems: true } });
    expectCalls(of({ type: "integer" }), ["x:[1,2]"], ["x:[a]"]);
    expectCalls(of({ enum: ["a", "b"] }), ['x:[<|"|>b<|"|>,<|"|>a<|"|>]'], ['x:[<|"|>b<|"|>,<|"|>b<|"|>]']);
    for (const items of [{ type: "string" }, {}, { type: "array", items: { type: "integer" } }]) {
      expect(() => grammarFor(of(items))).toThrow("not written as JSON");
    }
  });
});

test("Mistral's calls are a list where the template writes one", () => {
  const grammar = grammarOf("mistral", "[TOOL_CALLS] [", "add", true);
  expect(matches(grammar, '[TOOL_CALLS] [{"name": "add", "arguments": {"count": 2}}]')).toBe(true);
});

test("a function that declares no parameters may be given any", () => {
  const grammar = grammarOf("qwen3_coder", "", "stop", true);
  const parameter = "<parameter=x>\nany\nlines\n</parameter>\n";
  for (const text of ["", parameter, parameter + parameter]) {
    expect(matches(grammar, `<tool_call>\n<function=stop>\n${text}</function>\n</tool_call>`)).toBe(true);
  }
  expect(matches(grammarOf("pythonic", "", "stop", true), "[stop(x={'a': 1})]")).toBe(false);
  expect(matches(grammarOf("pythonic", "", "stop", true), '[stop(x={"a": [None]})]')).toBe(true);
});
