import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { expectGathered, expectParsed, expectStreamed, streamed } from "../../../test/fixtures/toolParsing.js";
import { TOOL_FORMATS, type ToolFormat } from "../../toolFormats.js";
import { createToolParser, recogniseToolFormat } from "./toolCalls.js";
import { TOOL_SYNTAX } from "./toolSyntax.js";

describe("hermes", () => {
  const tool = (body: string) => `<tool_call>\n${body}\n</tool_call>`;

  it("finds calls and the text around them", () => {
    expectParsed("hermes", "Just text.", "Just text.");
    expectParsed("hermes", tool('{"name": "f", "arguments": {"a": [1, {"b": "}"}]}}'), "", [
      "f",
      '{"a": [1, {"b": "}"}]}',
    ]);
    expectParsed("hermes", `On it.\n${tool('{"name": "f", "arguments": {}}')}\n`, "On it.\n", ["f", "{}"]);
    expectParsed("hermes", ` \n${tool('{"name": "f", "arguments": {}}')}`, " \n", ["f", "{}"]);
    const two = `${tool('{"name":"f","arguments":{"x":1}}')}\n${tool('{"name": "g", "arguments": {"y": 2}}')}`;
    expectParsed("hermes", `a ${two} b`, "a  b", ["f", '{"x":1}'], ["g", '{"y": 2}']);
    expectParsed("hermes", "", "");
  });

  it("takes the object's keys in any order, and arguments in any form", () => {
    expectParsed("hermes", tool('{"arguments": {"x": "é😀"}, "name": "f"}'), "", ["f", '{"x": "é😀"}']);
    expectParsed("hermes", tool('{"name": "f"}'), "", ["f", "{}"]);
    expectParsed("hermes", tool('{"name": "f", "arguments": null}'), "", ["f", "{}"]);
    expectParsed("hermes", tool('{"name": "f", "arguments": "{\\"x\\": 1}"}'), "", ["f", '{"x": 1}']);
    expectParsed("hermes", tool('{"type": "function", "id": 3, "name": "f", "parameters": {"x": 1}}'), "", [
      "f",
      '{"x": 1}',
    ]);
    expectParsed("hermes", tool('{"name": "say \\"hi\\"", "arguments": {}}'), "", ['say "hi"', "{}"]);
  });

  it("sees tags and brackets inside strings as text", () => {
    const given = '{"x": "</tool_call> } \\" { <tool_call>"}';
    expectParsed("hermes", tool(`{"name": "f", "arguments": ${given}}`), "", ["f", given]);
  });

  it("leaves what is no call in the content", () => {
    for (const body of [
      "hello",
      '{"nom": "f"}',
      "{}",
      '{"name": 3}',
      '{"name": ""}',
      '{"name": }',
      "[1]",
      '{"x": {}}',
    ]) {
      expectParsed("hermes", `a ${tool(body)} b`, `a ${tool(body)} b`);
    }
    expectParsed("hermes", "1 <tool_cal> 2", "1 <tool_cal> 2");
    expectParsed("hermes", "ends in <tool", "ends in <tool");
    expectParsed("hermes", "<tool_call>", "<tool_call>");
    expectParsed("hermes", '<tool_call>{"name": "f"', '<tool_call>{"name": "f"');
    expectParsed("hermes", `<tool_call>${tool('{"name": "f"}')}`, "<tool_call>", ["f", "{}"]);
  });

  it("leaves a call that never ends, or is no JSON, in the content, unless it has been handed out", () => {
    const cut = '<tool_call>{"name": "f", "arguments": {"x": 1';
    expectGathered("hermes", cut, cut);
    expectGathered("hermes", `Hm.\n${tool('{"name": "g"}')}\n${cut}`, `Hm.\n\n${cut}`, ["g", "{}"]);
    expectStreamed("hermes", cut, "", ["f", '{"x": 1']);
    for (const body of [
      '{"name": "f", "arguments": {x: 1}}',
      '{"name": "f", "arguments": {"x": 1,}}',
      '{"name": "f", "arguments": {}, what}',
    ]) {
      expectGathered("hermes", `${tool(body)} b`, `${tool(body)} b`);
    }
  });

  it("forgives a slip after a call", () => {
    expectParsed("hermes", '<tool_call>{"name": "f", "arguments": {}}', "", ["f", "{}"]);
    expectParsed("hermes", `<tool_call>{"name": "f", "arguments": {}}}\n</tool_call>`, "", ["f", "{}"]);
    expectParsed("hermes", `<tool_call>{"name": "f", "arguments": {}}\nDone`, "Done", ["f", "{}"]);
    expectParsed("hermes", `<tool_call>{"name": "f"}${tool('{"name": "g"}')}`, "", ["f", "{}"], ["g", "{}"]);
  });

  it("streams the name first, then the arguments as they come", () => {
    const parser = createToolParser("hermes", true);
    expect(parser.push('Hm <tool_call>\n{"name": "f", "argum')).toEqual({ content: "Hm ", toolCalls: [] });
    expect(parser.push('ents": {"ci')).toEqual({
      content: "",
      toolCalls: [
        { index: 0, name: "f", arguments: "" },
        { index: 0, arguments: '{"ci' },
      ],
    });
    expect(parser.push('ty": "Rome"}').toolCalls).toEqual([{ index: 0, arguments: 'ty": "Rome"}' }]);
    expect(parser.push("}\n</tool_call>")).toEqual({ content: "", toolCalls: [] });
    expect(parser.flush()).toEqual({ content: "", toolCalls: [] });
  });
});

describe("llama3", () => {
  it("finds an answer that is a call", () => {
    expectParsed("llama3", '{"name": "f", "parameters": {"x": 1}}', "", ["f", '{"x": 1}']);
    expectParsed("llama3", '<|python_tag|>{"name": "f", "parameters": {"x": 1}}', "", ["f", '{"x": 1}']);
    expectParsed("llama3", ' \n{"type": "function", "name": "f", "parameters": {}}\n', "", ["f", "{}"]);
    const two = '{"name": "f", "parameters": {}}; {"name": "g", "arguments": {"y": "a; b"}}';
    expectParsed("llama3", two, "", ["f", "{}"], ["g", '{"y": "a; b"}']);
  });

  it("leaves other answers alone", () => {
    for (const text of [
      "",
      " Hello",
      'See {"name": 1}',
      '{"name": "Bob", "age": 3}',
      '{"x": 1}',
      "{",
      '{"name": "Bob"',
      "<|python_tag|>print(1)",
      "<|python",
      "<b>",
      "[1, 2]",
    ]) {
      expectParsed("llama3", text, text);
    }
  });

  it("keeps text after a call as content", () => {
    expectParsed("llama3", '{"name": "f", "parameters": {}} Done', " Done", ["f", "{}"]);
    expectGathered("llama3", '{"name": "f", "parameters": {"x"', '{"name": "f", "parameters": {"x"');
    expectStreamed("llama3", '{"name": "f", "parameters": {"x"', "", ["f", '{"x"']);
  });
});

it("formats are recognised from what a template teaches", () => {
  const read = (name: string) =>
    readFileSync(new URL(`../../../test/reference/templates/${name}.jinja`, import.meta.url), "utf8");
  const formats: Record<string, ToolFormat | null> = {
    qwen_thinking: "hermes",
    llama3_tools: "llama3",
    chatml: null,
    mistral_strict: "mistral",
    phi: "phi4",
    gemma: "pythonic",
    deepseek: null,
    command_r_rag: null,
    gemma4: "gemma4",
  };
  for (const [name, format] of Object.entries(formats)) expect(recogniseToolFormat(read(name)), name).toBe(format);
  expect(recogniseToolFormat("<tool_call>\n<function=f>\n<parameter=x> arguments")).toBe("qwen3_coder");
  for (const list of ["<|tool_list_start|>[", "List of tools: ["]) {
    expect(recogniseToolFormat(`{%- if tools -%}{{ '${list}' + (tools | tojson) }}{%- endif -%}`)).toBe("lfm2");
  }
  expect(recogniseToolFormat("<tool_call>f\n<arg_key>x</arg_key> arguments")).toBeNull();
});

describe("whatever is written, there is a whole call streamed where there is one gathered", () => {
  const whole = '{"name": "f", "arguments": {}}';
  const pieces = [
    ...[whole, `${whole.slice(0, -1)},`, `${whole.slice(0, -1)}, what}`, "f(x=1)", "f(x=1,", "f(x=1 y)"],
    ...['f[ARGS]{"x": 1}', "f[ARGS]{x}", "f><parameter=x>1</parameter></function>", "f></f>", "<function="],
    ...["[", ", ", "; ", "]", "\n"],
  ];
  const hasCall = (format: ToolFormat, text: string, asTheyCome: boolean) => {
    const parser = createToolParser(format, asTheyCome);
    const calls = [parser.push(text), parser.flush()].flatMap(({ toolCalls }) => toolCalls);
    const isWhole = Number.isFinite(parser.firstWhole);
    if (isWhole && calls.length === 0) expect.fail(text);
    return isWhole;
  };

  /** What calls begin with, where that is no mark alone. */
  const beginnings: Partial<Record<ToolFormat, string>> = {
    harmony: "<|channel|>commentary to=functions.f<|message|>",
  };

  /** What only their calls are made of. */
  const morePieces: Partial<Record<ToolFormat, string[]>> = { gemma4: ["call:f{", "x:1", "}"] };

  it.each(TOOL_FORMATS)("%s", (format) => {
    const { marks } = TOOL_SYNTAX[format];
    const beginning = beginnings[format] ?? marks[0];
    const all = [...marks, ...(morePieces[format] ?? []), ...pieces];
    let count = 0;
    for (let number = 0; number < all.length ** 4; number += 11) {
      const at = (place: number) => all[Math.floor(number / all.length ** place) % all.length]!;
      const text = beginning + at(3) + at(2) + at(1) + at(0);
      const isGathered = hasCall(format, text, false);
      if (isGathered) count++;
      if (hasCall(format, text, true) !== isGathered) expect.fail(text);
    }
    expect(count).toBeGreaterThan(100);
  });
});

const long = "y".repeat(200_000);
const space = " ".repeat(20_000);
const longCalls: Record<ToolFormat, string> = {
  harmony: `${"<|channel|>commentary<|message|>".repeat(3_000)}${space}<|channel|>commentary to=functions.f<|message|>${space}{"x": "${long}"}`,
  gemma4: `${"<|tool_call>".repeat(3_000)}${space}call:f{x:<|"|>${long}<|"|>}`,
  hermes: `${"<tool_call>".repeat(3_000)}${space}{"name": "f", "arguments": {"x": "${long}"}}`,
  llama3: `${"<tool_call>".repeat(3_000)}${space}{"name": "f", "arguments": {"x": "${long}"}}`,
  qwen3_coder: `${"<tool_call>".repeat(3_000)}${space}<function=f><parameter=x>${long}</parameter></function>`,
  granite: `${"<|tool_call|>[".repeat(3_000)}${space}{"name": "f", "arguments": {"x": "${long}"}}]`,
  mistral: `${"[TOOL_CALLS]".repeat(3_000)}${space}f[ARGS]{"x": "${long}"}`,
  phi4: `${"functools[".repeat(3_000)}${space}{"name": "f", "arguments": {"x": "${long}"}}]`,
  lfm2: `${"<|tool_call_start|>[".repeat(3_000)}${space}f(x="${long}")]`,
  pythonic: `${space.repeat(5)}[${"f(), ".repeat(3_000)}f(),${space.repeat(5)}f()${space.repeat(5)},f(x="${long}")]`,
};

it.each(TOOL_FORMATS)("long answers take time that grows with them: %s", (format) => {
  const text = longCalls[format];
  const started = process.cpuUsage();
  streamed(format, text, 4);
  expect(process.cpuUsage(started).user).toBeLessThan(2_000_000);
});
