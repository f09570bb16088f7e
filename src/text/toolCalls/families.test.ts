// Calls as the families of models write them.

import { describe, expect, it } from "vitest";
import {
  expectGathered,
  expectParsed,
  expectStreamed,
  expectTyped,
  streamed,
} from "../../../test/fixtures/toolParsing.js";

/** What the functions of a request declare. */
const offered = new Map<string, unknown>([
  [
    "get_weather",
    {
      type: "object",
      properties: {
        city: { type: "string" },
        days: { type: "integer" },
        share: { type: "number" },
        now: { type: "boolean" },
        unit: { enum: ["C", "F"] },
        tags: { type: "array", items: { type: "string" } },
        filter: { type: "object" },
        limit: { type: ["integer", "null"] },
        either: { anyOf: [{ type: "integer" }, { type: "string" }] },
      },
    },
  ],
  ["stop", {}],
]);

describe("gemma4", () => {
  const call = (given: string, name = "get_weather") => `<|tool_call>call:${name}{${given}}<tool_call|>`;
  const text = (content: string) => `<|"|>${content}<|"|>`;
  const expectCalls = (given: string, content: string, ...calls: [name: string, given: object][]) =>
    expectTyped("gemma4", offered, given, content, ...calls);

  it("finds calls and the text around them", () => {
    expectParsed("gemma4", call(`city:${text("Łódź")},days:2`), "", ["get_weather", '{"city": "Łódź", "days": 2}']);
    expectCalls(
      `I look.\n\n${call("days:2")}${call("", "stop")} Done`,
      "I look.\n\n Done",
      ["get_weather", { days: 2 }],
      ["stop", {}],
    );
    expectCalls("<|tool_call>call:stop{}call:stop{}", "", ["stop", {}], ["stop", {}]);
    expectCalls("<|tool_call>call:stop{}\n<|tool_call> call: stop {}<tool_call|>", "", ["stop", {}], ["stop", {}]);
    expectCalls('<|tool_call>{"name": "stop", "arguments": {}}<tool_call|>', "", ["stop", {}]);
    expectParsed("gemma4", call("", "a.b-c/d:e"), "", ["a.b-c/d:e", "{}"]);
    expectCalls(call("", "unknown"), call("", "unknown"));
    for (const none of [
      "a <|tool_call> b",
      "<|tool_call>stop{}<tool_call|>",
      "<|tool_call>call:{}",
      "call:stop{}",
      text(""),
    ]) {
      expectGathered("gemma4", none, none);
    }
  });

  it("reads values of every kind, nested as they may be", () => {
    const given = `a:null,b:true,c:false,d:-1.5e3,e:[],f:{},g:[1,${text("x")},[${text("")}],{h:${text("y")},i:{j:0}}]`;
    const read = { a: null, b: true, c: false, d: -1500, e: [], f: {}, g: [1, "x", [""], { h: "y", i: { j: 0 } }] };
    expectCalls(call(given), "", ["get_weather", read]);
    expectCalls(call("a:None,b:True,c:False,d:.5,e:+1"), "", [
      "get_weather",
      { a: null, b: true, c: false, d: 0.5, e: 1 },
    ]);
    expectCalls(call(" a : 1 ,\n b : [ 1 , 2 , ] , "), "", ["get_weather", { a: 1, b: [1, 2] }]);
  });

  it("keeps what stands in a text as it is", () => {
    for (const content of [
      '"',
      "\\n",
      "a\nb",
      "}<tool_call|>",
      "<|tool_call>call:stop{}",
      "<|",
      '<|"',
      '<<|"<',
      "😀\u0000",
      ":,[]{}",
      '|>"|>',
    ]) {
      expectCalls(call(`city:${text(content)},days:1`), "", ["get_weather", { city: content, days: 1 }]);
    }
  });

  it("takes names and texts in other quotation marks, or in none", () => {
    expectCalls(call(`${text("city")}:${text("a")},"days":1`), "", ["get_weather", { city: "a", days: 1 }]);
    expectCalls(call('city:"a\\"\\u00e9, b",x:"",y:"c\\d"'), "", ["get_weather", { city: 'a"é, b', x: "", y: "c\\d" }]);
    expectCalls(call("city:New York ,first name:Ann,z:02134,w:1.2.3"), "", [
      "get_weather",
      { city: "New York", "first name": "Ann", z: "02134", w: "1.2.3" },
    ]);
  });

  it("is content where a call ends too soon, and what there is of it where it streams", () => {
    const whole = call(`city:${text("Rome")},tags:[${text("a")}]`);
    for (let length = 1; length < whole.indexOf("}") + 1; length++) {
      expectGathered("gemma4", whole.slice(0, length), whole.slice(0, length));
    }
    expectStreamed("gemma4", "<|tool_call>call:f", "<|tool_call>call:f");
    expectStreamed("gemma4", `<|tool_call>call:f{a:<|"|>Ro<|"`, "", ["f", '{"a": "Ro']);
    expectStreamed("gemma4", "<|tool_call>call:f{a:1,b", "", ["f", '{"a": 1, ']);
    expectGathered("gemma4", call("a:"), call("a:"));
    const deep = call(`a:${"[".repeat(100)}`);
    expectGathered("gemma4", deep, deep);
  });
});

describe("qwen3_coder", () => {
  const call = (name: string, ...parameters: [key: string, value: string][]) => {
    const written = parameters.map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`);
    return `<tool_call>\n<function=${name}>\n${written.join("")}</function>\n</tool_call>`;
  };
  const expectCalls = (text: string, content: string, ...calls: [name: string, given: object][]) =>
    expectTyped("qwen3_coder", offered, text, content, ...calls);

  it("finds calls and the text around them", () => {
    expectCalls(call("get_weather", ["city", "Łódź"]), "", ["get_weather", { city: "Łódź" }]);
    const two = `I look.\n\n${call("get_weather", ["city", "Rome"], ["days", "2"])}\n${call("stop")}`;
    expectCalls(two, "I look.\n\n", ["get_weather", { city: "Rome", days: 2 }], ["stop", {}]);
    expectCalls(call("unknown"), call("unknown"));
    for (const text of ["a <tool_call> b", "<tool_call>\n<function=stop>\nno", "<tool_call><function=>"]) {
      expectGathered("qwen3_coder", text, text);
    }
  });

  it("reads a value as the type that the function declares", () => {
    const values: [key: string, value: string, read: unknown][] = [
      ["days", "3", 3],
      ["days", "three", "three"],
      ["share", "0.5", 0.5],
      ["share", "2", 2],
      ["now", "True", true],
      ["now", "false", false],
      ["limit", "None", null],
      ["limit", "7", 7],
      ["city", "7", "7"],
      ["city", "null", "null"],
      ["unit", "C", "C"],
      ["either", "7", 7],
      ["either", "seven", "seven"],
      ["tags", '["a", "b"]', ["a", "b"]],
      ["tags", "['a', 'b']", ["a", "b"]],
      ["filter", '{"x": {"y": [1]}}', { x: { y: [1] } }],
      ["filter", "{'x': None}", { x: null }],
      ["undeclared", "5", "5"],
    ];
    for (const [key, value, read] of values) {
      expectCalls(call("get_weather", [key, value]), "", ["get_weather", { [key]: read }]);
    }
  });

  it("keeps a string's lines, tags, quotes and characters beyond the first plane", () => {
    for (const value of [
      "",
      "\n",
      "a\nb\n",
      'say "hi"\\n',
      "<b></function>",
      "x < y </param",
      "😀é",
      "<parameter=z>",
    ]) {
      expectCalls(call("get_weather", ["city", value]), "", ["get_weather", { city: value }]);
    }
  });

  it("forgives a missing outer tag, and JSON inside it", () => {
    expectCalls("<function=stop></function>", "", ["stop", {}]);
    const json = '<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>';
    expectCalls(json, "", ["get_weather", { city: "Rome" }]);
    const tight = "<function=get_weather><parameter=city>Rome</parameter></function>";
    expectCalls(tight, "", ["get_weather", { city: "Rome" }]);
  });

  it("streams a string while it is written, and leaves a call that is cut off in the content otherwise", () => {
    const cut = "<tool_call>\n<function=get_weather>\n<parameter=city>\nNew Yo";
    expectGathered("qwen3_coder", cut, cut);
    for (const size of [1, 3]) {
      const toolCalls = [{ name: "get_weather", arguments: '{"city": "New Yo' }];
      expect(streamed("qwen3_coder", cut, size, offered)).toEqual({ content: "", toolCalls });
    }
  });
});

describe("granite", () => {
  const one = '{"name": "f", "arguments": {"x": [1, "]"]}}';
  const f: [string, string] = ["f", '{"x": [1, "]"]}'];

  it("finds lists of calls", () => {
    expectParsed("granite", `<|tool_call|>[${one}]`, "", f);
    const two = `<|tool_call|> [\n${one},\n {"name": "g", "arguments": {}}\n]`;
    expectParsed("granite", two, "", f, ["g", "{}"]);
    expectParsed("granite", `Sure. <tool_call>[${one}]</tool_call>`, "Sure. ", f);
    expectParsed("granite", `<|tool_call|>${one}`, "", f);
  });

  it("leaves other text alone", () => {
    for (const text of ["[1, 2]", "<|tool_call|>", "<|tool_call|>[", "<|tool_call|>[1]", "<|tool_call|> no", "[{"]) {
      expectParsed("granite", text, text);
    }
    const cut = '<|tool_call|>[{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arg';
    expectParsed("granite", cut, ', {"name": "g", "arg', ["f", '{"x": 1}']);
    expectParsed("granite", '<|tool_call|>[{"name": "f", "arguments": {}}, ', "", ["f", "{}"]);
  });
});

describe("mistral", () => {
  it("finds calls by name", () => {
    expectParsed("mistral", '[TOOL_CALLS]f[ARGS]{"x": "[ARGS]"}', "", ["f", '{"x": "[ARGS]"}']);
    const two = 'Hm.[TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[ARGS]{}';
    expectParsed("mistral", two, "Hm.", ["f", '{"x": 1}'], ["g", "{}"]);
    const numbered = '[TOOL_CALLS]f[CALL_ID]a1b2c3d4e[ARGS]{"x": {"y": "}"}}';
    expectParsed("mistral", numbered, "", ["f", '{"x": {"y": "}"}}']);
    expectParsed("mistral", '[TOOL_CALLS]f{"x": 1}', "", ["f", '{"x": 1}']);
    expectParsed("mistral", '[TOOL_CALLS]f{"x": 1}\n\n Done.', "Done.", ["f", '{"x": 1}']);
  });

  it("finds lists of calls", () => {
    const list =
      '[TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}, "id": "abcdef123"}, {"name": "g", "arguments": {}}]';
    expectParsed("mistral", list, "", ["f", '{"x": 1}'], ["g", "{}"]);
    expectParsed("mistral", '[TOOL_CALLS][{"arguments": {"x": 1}, "name": "f"}]', "", ["f", '{"x": 1}']);
  });

  it("leaves other text alone", () => {
    const texts = [
      "[INST]",
      "[TOOL_CALLS]",
      "[TOOL_CALLS]f",
      "[TOOL_CALLS]f g",
      "[TOOL_CALLS]f[OTHER]{}",
      "[TOOL_CALLS][]",
    ];
    for (const text of texts) expectParsed("mistral", text, text);
    expectGathered("mistral", "[TOOL_CALLS]f[ARGS]{x}", "[TOOL_CALLS]f[ARGS]{x}");
    expectStreamed("mistral", '[TOOL_CALLS]f[ARGS]{"x', "", ["f", '{"x']);
  });
});

describe("phi4", () => {
  it("finds lists of calls behind either mark", () => {
    const list = '[{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]';
    expectParsed("phi4", `<|tool_call|>${list}<|/tool_call|>`, "", ["f", '{"x": 1}'], ["g", "{}"]);
    expectParsed("phi4", `functools${list}`, "", ["f", '{"x": 1}'], ["g", "{}"]);
    const nested = '[{"type": "function", "function": {"name": "f", "arguments": {"x": {}}}}]';
    expectParsed("phi4", `<|tool_call|>${nested}<|/tool_call|>`, "", ["f", '{"x": {}}']);
  });

  it("leaves other text alone", () => {
    for (const text of [
      "import functools\n",
      "functools.partial(f)",
      '<|tool_call|>[{"function": {}}]',
      "functools[1]",
    ]) {
      expectParsed("phi4", text, text);
    }
  });
});

describe("lfm2", () => {
  it("finds lists of calls between its marks, and the texts around them", () => {
    const [open, close] = ["<|tool_call_start|>", "<|tool_call_end|>"];
    expectParsed("lfm2", `${open}[f(x="a")]${close}`, "", ["f", '{"x": "a"}']);
    const two = `I ask.${open}[f(x=1, y=[True, None]), mod.g()]${close}Wait.`;
    expectParsed("lfm2", two, "I ask.Wait.", ["f", '{"x": 1, "y": [true, null]}'], ["mod.g", "{}"]);
    expectParsed("lfm2", `${open}[f(x=1)]`, "", ["f", '{"x": 1}']);
  });

  it("reads the JSON that it writes where it is asked to", () => {
    const calls = '{"name": "f", "arguments": {"x": "a"}}, {"name": "g", "parameters": {}}';
    const marked = `I ask.<|tool_call_start|>[${calls}]<|tool_call_end|>`;
    expectParsed("lfm2", marked, "I ask.", ["f", '{"x": "a"}'], ["g", "{}"]);
  });

  it("leaves other text alone", () => {
    for (const text of ["[f(x=1)]", "<|tool_call_start|>[1]<|tool_call_end|>", "<|tool_call_start|>"]) {
      expectParsed("lfm2", text, text);
    }
  });
});

describe("pythonic", () => {
  it("finds an answer that is a list of calls", () => {
    expectParsed("pythonic", "[f(x=1)]", "", ["f", '{"x": 1}']);
    const two = " [f(x='a', y=[1, 2.5, -3], z={'k': None}), mod.g()]\n";
    expectParsed("pythonic", two, "", ["f", '{"x": "a", "y": [1, 2.5, -3], "z": {"k": null}}'], ["mod.g", "{}"]);
    expectParsed("pythonic", "[f( x = True , y = false, )]", "", ["f", '{"x": true, "y": false}']);
  });

  it("finds functions and parameters whose names Python does not allow", () => {
    expectParsed(
      "pythonic",
      "[get-it(user-id=1, größe = 2), 2fa(a b=3)]",
      "",
      ["get-it", '{"user-id": 1, "größe": 2}'],
      ["2fa", '{"a b": 3}'],
    );
  });

  it("finds calls in a block of code", () => {
    expectParsed("pythonic", '```tool_code\nf(x="a")\n```', "", ["f", '{"x": "a"}']);
    const two = "I ask.\n```tool_code\nf(x=1)\ng(y=2)\n```\nWait.";
    expectParsed("pythonic", two, "I ask.\n\nWait.", ["f", '{"x": 1}'], ["g", '{"y": 2}']);
    expectParsed("pythonic", "<code>\nf(x=1)\n</code>", "", ["f", '{"x": 1}']);
  });

  it("reads strings as Python writes them", () => {
    const values: [source: string, value: string][] = [
      [`"it's"`, "it's"],
      [`'say "hi"'`, 'say "hi"'],
      [String.raw`'a\'b\n\x41\u00e9\U0001F600\q'`, "a'b\nAé😀\\q"],
      ["''", ""],
      ["'''two\nlines'''", "two\nlines"],
      ['"""a "quoted" word"""', 'a "quoted" word'],
      ["'😀'", "😀"],
    ];
    for (const [source, value] of values) {
      expectParsed("pythonic", `[f(x=${source})]`, "", ["f", `{"x": ${JSON.stringify(value)}}`]);
    }
  });

  it("leaves other text alone", () => {
    const texts = ["[1] See below.", "[see below]", "[f(1)]", "[f(x=g())]", "[f", "f(x=1)", "[]", "[f(x=01)]"];
    for (const text of [...texts, "```python\nf(x=1)\n```"]) expectGathered("pythonic", text, text);
    expectStreamed("pythonic", "[f(x='ab", "", ["f", '{"x": "ab']);
    const deep = `[f(x=${"[".repeat(5000)}`;
    expectGathered("pythonic", deep, deep);
  });
});
