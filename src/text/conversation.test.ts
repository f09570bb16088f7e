import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type ChatTemplate, compileChatTemplate } from "../jinja/chatTemplate.js";
import { TemplateError } from "../jinja/errors.js";
import { type Conversation, renderConversation } from "./conversation.js";
import { ConversationError } from "./errors.js";
import type { ConversationMessage } from "./templateMessages.js";

const REFERENCE = new URL("../../test/reference/templates/", import.meta.url);

function readTemplate(name: string): ChatTemplate {
  return compileChatTemplate(readFileSync(new URL(`${name}.jinja`, REFERENCE), "utf8"));
}

const chatml = readTemplate("chatml");
const qwen = readTemplate("qwen_thinking");
/** Shows every message as JSON. */
const shown = compileChatTemplate("{% for m in messages %}{{ m | tojson }}\n{% endfor %}");
const shownParts = compileChatTemplate(
  "{% for m in messages %}{% for p in m.content %}{{ p | tojson }}{% endfor %}{% endfor %}",
);

function show(template: ChatTemplate, ...messages: ConversationMessage[]): unknown[] {
  const lines = renderConversation(template, { messages }).trim().split("\n");
  return lines.map((line) => JSON.parse(line) as unknown);
}

function failure(run: () => unknown): ConversationError {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(ConversationError);
    return error as ConversationError;
  }
  throw new Error("nothing was thrown");
}

/** What a request looks like on the wire: arguments are JSON text. */
function asRequest(messages: ConversationMessage[]): ConversationMessage[] {
  return messages.map((message) => {
    if (!Array.isArray(message.tool_calls)) return message;
    const calls = message.tool_calls as { function: { arguments: unknown } }[];
    const tool_calls = calls.map((call) => {
      return { ...call, function: { ...call.function, arguments: JSON.stringify(call.function.arguments) } };
    });
    return { ...message, tool_calls };
  });
}

describe("a request's conversation", () => {
  interface Recorded {
    now: string;
    conversations: Record<string, Record<string, unknown> & { messages: ConversationMessage[] }>;
    expected: Record<string, Record<string, { text?: string; raised?: string | null }>>;
  }
  const recorded = JSON.parse(readFileSync(new URL("expected.json", REFERENCE), "utf8")) as Recorded;
  const files = [
    ...["chatml", "qwen_thinking", "llama3_tools", "mistral_strict", "deepseek", "phi", "command_r_rag"],
    ...["qwen3_5", "granite_thinking", "ministral", "smollm", "gemma_parts"],
    ...["qwen3_5_small", "granite_response", "granite4", "phi4", "harmony", "gemma4"],
  ];
  /** Their templates show no tools or no calls, so that anneal does. */
  const untaught = ["phi", "smollm", "gemma_parts", "granite_response"];

  it.each(files)("renders as Python renders its variables: %s", (name) => {
    let compared = 0;
    for (const [title, variables] of Object.entries(recorded.conversations)) {
      const { messages, tools, documents, add_generation_prompt, ...kwargs } = variables;
      const expected = recorded.expected[`${name}.jinja`]![title]!;
      const usesTools = tools !== undefined || messages.some((message) => message.tool_calls !== undefined);
      const differs =
        ["a developer", "contents in parts", "nothing said"].includes(title) ||
        (untaught.includes(name) && usesTools) ||
        (["ministral", "harmony"].includes(name) && title === "reasoning apart") ||
        (name === "gemma4" && ["two calls at once", "tools offered", "a tool answered"].includes(title));
      if (differs || (expected.text === undefined && expected.raised === null)) continue;
      const conversation: Conversation = {
        messages: asRequest(messages),
        tools: tools as unknown[] | undefined,
        documents: documents as unknown[] | undefined,
        addGenerationPrompt: add_generation_prompt === true,
        kwargs,
        now: new Date(recorded.now),
      };
      if (expected.text !== undefined) expect(renderConversation(readTemplate(name), conversation)).toBe(expected.text);
      else expect(() => renderConversation(readTemplate(name), conversation)).toThrow(expected.raised!);
      compared++;
    }
    expect(compared).toBeGreaterThan(15);
  });

  it("is refused when it is empty", () => {
    expect(failure(() => renderConversation(chatml, { messages: [] })).location).toBe("messages");
  });

  it("passes on what the template itself refuses", () => {
    const messages = [{ role: "system", content: "a" }];
    expect(() => renderConversation(readTemplate("gemma"), { messages })).toThrow(TemplateError);
    expect(() => renderConversation(readTemplate("gemma"), { messages })).toThrow("System role not supported");
  });
});

describe("families whose templates leave something to others", () => {
  const tool = (name: string) => ({
    type: "function",
    function: { name, description: "d", parameters: { type: "object", properties: { x: { type: "number" } } } },
  });
  const call = (name: string, given: string) => ({ id: "a", type: "function", function: { name, arguments: given } });
  const turns: ConversationMessage[] = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Go" },
    {
      role: "assistant",
      content: "On it.",
      tool_calls: [call("f", '{"x": 1.0, "s": "it\'s", "n": null}'), call("g", "{}")],
    },
    { role: "tool", content: "one" },
    { role: "tool", content: "two" },
    { role: "assistant", content: null, tool_calls: [call("f", '{"x": [true]}')] },
    { role: "tool", content: "three" },
  ];
  const rendered = (name: string, conversation: Partial<Conversation>) =>
    renderConversation(readTemplate(name), { messages: turns, now: new Date("2026-11-06T15:04:05Z"), ...conversation });

  describe("gpt-oss", () => {
    const harmony = readTemplate("harmony");
    const shownOf = (messages: ConversationMessage[], more: Partial<Conversation> = {}) => {
      const text = renderConversation(harmony, { messages, now: new Date("2026-11-06T15:04:05Z"), ...more });
      return text.slice(text.indexOf("<|end|>") + "<|end|>".length);
    };
    const question = { role: "user", content: "Go" };
    const asked = "<|start|>user<|message|>Go<|end|>";
    const called = (name: string, given = "{}") =>
      `<|start|>assistant to=functions.${name}<|channel|>commentary json<|message|>${given}<|call|>`;
    const answer = (name: string, text: string) =>
      `<|start|>functions.${name} to=assistant<|channel|>commentary<|message|>"${text}"<|end|>`;

    it("has its thoughts where its template reads them", () => {
      const turn = { role: "assistant", content: null, tool_calls: [call("f", "{}")], reasoning: "Hm." };
      const thought = "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>";
      const result = { role: "tool", tool_call_id: "a", content: "one" };
      const rest = `${called("f")}${answer("f", "one")}<|start|>assistant`;
      expect(shownOf([question, turn, result])).toBe(asked + thought + rest);
      expect(shownOf([question, { ...turn, reasoning: "" }, result])).toBe(asked + rest);
      expect(shownOf([question, { ...turn, reasoning: undefined, reasoning_content: "Hm." }, result])).toBe(
        asked + thought + rest,
      );
      const last = { role: "assistant", content: "Done.", reasoning: "Hm." };
      const final = "<|start|>assistant<|channel|>final<|message|>Done.<|return|>";
      expect(shownOf([question, last], { addGenerationPrompt: false })).toBe(asked + thought + final);
      expect(shownOf([question, last], { continueFinalMessage: true })).toBe(
        asked + thought + final.slice(0, -"<|return|>".length),
      );
    });

    it("has a text beside a call among its thoughts, which alone the template shows there", () => {
      const turn = { role: "assistant", content: "I ask.", tool_calls: [call("f", "{}")] };
      const thought = (text: string) => `${asked}<|start|>assistant<|channel|>analysis<|message|>${text}<|end|>`;
      expect(shownOf([question, turn])).toBe(`${thought("I ask.")}${called("f")}<|start|>assistant`);
      const both = shownOf([question, { ...turn, reasoning: "Hm." }]);
      expect(both).toBe(`${thought("Hm.\n\nI ask.")}${called("f")}<|start|>assistant`);
    });

    it("has each of several calls before what its tool answered", () => {
      const calls = [
        { ...call("f", '{"x": 1}'), id: "a" },
        { ...call("g", "{}"), id: "b" },
      ];
      const turn = { role: "assistant", content: null, tool_calls: calls };
      const results = [
        { role: "tool", tool_call_id: "b", content: "two" },
        { role: "tool", tool_call_id: "a", content: "one" },
      ];
      const expected = `${asked}${called("f", '{"x": 1}')}${answer("f", "one")}${called("g")}${answer("g", "two")}<|start|>assistant`;
      expect(shownOf([question, turn, ...results])).toBe(expected);
      const nameless = [
        { role: "tool", content: "one" },
        { role: "tool", content: "two" },
      ];
      expect(shownOf([question, turn, ...nameless])).toBe(expected);
    });

    it("is told of functions that have no description, and all that the system says", () => {
      const tools = [{ type: "function", function: { name: "f" } }];
      expect(shownOf([question], { tools })).toContain("\n// \ntype f = () => any;\n");
      const instructions = (text: string) => `<|start|>developer<|message|># Instructions\n\n${text}\n\n<|end|>`;
      const said = (role: string, content: string) => ({ role, content });
      expect(shownOf([said("developer", "One."), question])).toContain(instructions("One."));
      expect(shownOf([said("system", "One."), said("developer", "Two."), question])).toContain(
        instructions("One.\n\nTwo."),
      );
      expect(shownOf([question, said("system", "One.")])).toContain(instructions("One."));
    });

    it("thinks as hard as the request says", () => {
      const text = renderConversation(harmony, { messages: [question], reasoningEffort: "high" });
      expect(text).toContain("Reasoning: high\n");
    });
  });

  describe("Gemma 4", () => {
    const gemma4 = readTemplate("gemma4");
    const promptOf = (messages: ConversationMessage[], more: Partial<Conversation> = {}, template = gemma4) =>
      renderConversation(template, { messages, ...more });
    const question = { role: "user", content: "Go" };
    const asked = "<|turn>user\nGo<turn|>\n";
    const called = (name: string, given = "") => `<|tool_call>call:${name}{${given}}<tool_call|>`;
    const answer = (name: string, text: string) =>
      `<|tool_response>response:${name}{value:<|"|>${text}<|"|>}<tool_response|>`;
    const twoCalls = [
      { ...call("f", '{"x": 1.0, "A": [null, true, {"b": "\\"", "a": {}}]}'), id: "a" },
      { ...call("g", "{}"), id: "b" },
    ];
    const both = called("f", 'A:[null,true,{a:{},b:<|"|>"<|"|>}],x:1.0') + called("g");

    it("thinks where the request or its effort says so, and has thoughts only of the turn that goes on", () => {
      const thinking = `<|turn>system\n<|think|>\n<turn|>\n${asked}<|turn>model\n`;
      expect(promptOf([question], { kwargs: { enable_thinking: true } })).toBe(thinking);
      expect(promptOf([question], { reasoningEffort: "low" })).toBe(thinking);
      expect(promptOf([question], { reasoningEffort: "none" })).toBe(`${asked}<|turn>model\n`);
      const turn = { role: "assistant", content: null, tool_calls: [call("g", "{}")], reasoning: "Hm." };
      const result = { role: "tool", tool_call_id: "a", content: "one" };
      const shown = `${asked}<|turn>model\n<|channel>thought\nHm.\n<channel|>${called("g")}${answer("g", "one")}`;
      expect(promptOf([question, turn, result])).toBe(shown);
      const done = [turn, result, { role: "assistant", content: "Done." }, question];
      expect(promptOf([question, ...done])).toBe(
        `${asked}<|turn>model\n${called("g")}${answer("g", "one")}Done.<turn|>\n${asked}<|turn>model\n`,
      );
      const open = { continueFinalMessage: true };
      expect(promptOf([question, { role: "assistant", content: "So " }], open)).toBe(`${asked}<|turn>model\nSo`);
    });

    it("names the functions of answers, whichever way they are told", () => {
      const turn = { role: "assistant", content: null, tool_calls: twoCalls };
      const shown = `${asked}<|turn>model\n${both}${answer("f", "one")}${answer("g", "two")}`;
      const ids = [
        { role: "tool", tool_call_id: "a", content: "one" },
        { role: "tool", tool_call_id: "b", content: "two" },
      ];
      expect(promptOf([question, turn, ...ids])).toBe(shown);
      const nameless = ids.map(({ content }) => ({ role: "tool", content }));
      expect(promptOf([question, turn, ...nameless])).toBe(shown);
      const idless = { ...turn, tool_calls: twoCalls.map(({ id: _, ...rest }) => rest) };
      expect(promptOf([question, idless, ...nameless])).toBe(shown);
      const named = nameless.map((one, i) => ({ ...one, name: "fg"[i]! }));
      expect(promptOf([question, idless, ...named])).toBe(shown);
      const strange = [{ role: "tool", tool_call_id: "z", content: "three" }];
      expect(promptOf([question, turn, ...strange])).toContain(answer("unknown", "three"));
    });

    it("has a text beside calls before them, as the model wrote it", () => {
      const turn = { role: "assistant", content: "I ask.", tool_calls: twoCalls, reasoning: "Hm." };
      const result = { role: "tool", tool_call_id: "a", content: "one" };
      const said = `${asked}<|turn>model\n<|channel>thought\nHm.\n<channel|>I ask.${both}`;
      expect(promptOf([question, turn], { addGenerationPrompt: false })).toBe(`${said}<|tool_response>`);
      expect(promptOf([question, turn, result])).toBe(said + answer("f", "one"));
      const done = { role: "assistant", content: "Done." };
      expect(promptOf([question, turn, result, done], { addGenerationPrompt: false })).toBe(
        `${said}${answer("f", "one")}Done.<turn|>\n`,
      );
    });

    it("has turns that go on, where its template ends them behind a text and shows only thoughts before calls", () => {
      const torn = compileChatTemplate(
        gemma4.source
          .replace(
            'rest.role != "assistant" and not (at.answered and not said and not rest.role)',
            "not (at.answered and not said)",
          )
          .replace("if message.reasoning and", "if message.reasoning and message.tool_calls and"),
      );
      const turn = { role: "assistant", content: "I ask.", tool_calls: [call("g", "{}")], reasoning: "Hm." };
      const messages = [question, turn, { role: "tool", tool_call_id: "a", content: "one" }];
      const thought = "<|channel>thought\nHm.\n<channel|>";
      const shown = `${asked}<|turn>model\nI ask.${thought}${called("g")}${answer("g", "one")}`;
      expect(promptOf(messages, {}, torn)).toBe(shown);
      expect(promptOf([...messages, turn, question], {}, torn)).toBe(
        `${shown.replace(thought, "")}I ask.${called("g")}<|tool_response>${asked}<|turn>model\n`,
      );
      const parts = [
        { type: "text", text: "I " },
        { type: "text", text: "ask. " },
      ];
      expect(promptOf([question, { ...turn, content: parts }, ...messages.slice(2)], {}, torn)).toBe(
        shown.replace("I ask.", "Iask."),
      );
    });

    it("has answers within the message that calls where its template knows no others", () => {
      const first = compileChatTemplate(
        "{% for m in messages %}<|turn>{{ 'model' if m.role == 'assistant' else m.role }}\n" +
          "{% for c in m.tool_calls or [] %}<|tool_call>call:{{ c.function.name }}{}<tool_call|>{% endfor %}" +
          '{% for r in m.tool_responses or [] %}<|tool_response>response:{{ r.name }}{value:<|"|>{{ r.response }}<|"|>}<tool_response|>' +
          "{% endfor %}{{ m.content or '' }}{% if m.content or not m.tool_responses %}<turn|>\n{% endif %}{% endfor %}" +
          "{% if add_generation_prompt and not messages[-1].tool_responses %}<|turn>model\n{% endif %}",
      );
      const turn = { role: "assistant", content: null, tool_calls: [call("g", "{}")] };
      const result = { role: "tool", tool_call_id: "a", content: "one" };
      const answered = [question, turn, result];
      const shown = `${asked}<|turn>model\n${called("g")}${answer("g", "one")}`;
      expect(promptOf(answered, {}, first)).toBe(shown);
      expect(promptOf([question, turn], { addGenerationPrompt: false }, first)).toBe(
        `${asked}<|turn>model\n${called("g")}<|tool_response>`,
      );
      const done = { role: "assistant", content: "Done." };
      const rest = `I ask.${called("g")}${answer("g", "one")}Done.`;
      const messages = [...answered, { ...turn, content: "I ask." }, result, done];
      expect(promptOf([...messages, question], {}, first)).toBe(`${shown}${rest}<turn|>\n${asked}<|turn>model\n`);
      expect(promptOf(messages, { continueFinalMessage: true }, first)).toBe(shown + rest);
    });

    it("is told of functions that have no description, and what the system says as it is", () => {
      const tools = [{ type: "function", function: { name: "f" } }];
      expect(promptOf([question], { tools })).toContain('<|tool>declaration:f{description:<|"|><|"|>}<tool|>');
      const system = (content: unknown) => promptOf([{ role: "system", content } as ConversationMessage, question]);
      expect(system("One.")).toBe(`<|turn>system\nOne.<turn|>\n${asked}<|turn>model\n`);
      const parts = ["One.", "Two."].map((text) => ({ type: "text", text }));
      expect(system(parts)).toBe(`<|turn>system\nOne.\nTwo.<turn|>\n${asked}<|turn>model\n`);
      expect(promptOf([question, { role: "developer", content: "One." }])).toContain("<|turn>system\nOne.<turn|>");
    });
  });

  it("Gemma: as Google's documents write it", () => {
    const text = rendered("gemma_parts", { tools: [tool("f")], addGenerationPrompt: true });
    const functions = JSON.stringify([tool("f").function], null, 2);
    expect(text).toBe(
      `<start_of_turn>user
Be brief.

You have access to functions. If you decide to invoke any of the function(s), you MUST put it in the format of
[func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)]
You SHOULD NOT include any other text in the response if you call a function
${functions}

Go<end_of_turn>
<start_of_turn>model
On it.
[f(x=1.0, s="it's", n=None), g()]<end_of_turn>
<start_of_turn>user
\`\`\`tool_output
one
\`\`\`
\`\`\`tool_output
two
\`\`\`<end_of_turn>
<start_of_turn>model
[f(x=[True])]<end_of_turn>
<start_of_turn>user
\`\`\`tool_output
three
\`\`\`<end_of_turn>
<start_of_turn>model
`,
    );
    expect(rendered("gemma_parts", { messages: [{ role: "user", content: "Hi" }] })).not.toContain("functions");
  });

  it("Phi: tools in the system message, calls and answers between their marks", () => {
    const text = rendered("phi", { tools: [tool("f")], specialTokens: { eos_token: "</s>" } });
    expect(text).toContain(`<|system|>Be brief.<|tool|>[{"name": "f", "description": "d", "parameters": `);
    expect(text).toContain("<|/tool|><|end|><|user|>");
    expect(text).toContain(
      '<|assistant|>\nOn it.\n<|tool_call|>[{"name": "f", "arguments": {"x": 1.0, "s": "it\'s", "n": null}}, {"name": "g", "arguments": {}}]<|/tool_call|><|end|>',
    );
    expect(text).toContain("<|tool_response|>\nthree<|end|>");
    const alone = rendered("phi", { messages: [{ role: "user", content: "Hi" }], tools: [tool("f")] });
    expect(alone).toContain('<|system|>You are a helpful assistant with some tools.<|tool|>[{"name": "f"');
  });

  it("Granite: calls behind their mark, and answers under the role that it has for them", () => {
    const source =
      "{{ 'respond with <|tool_call|>' if tools }}{% for m in messages %}{{ '<|start_of_role|>' + m['role'] + '<|end_of_role|>' + m['content'] + '<|end_of_text|>' }}{% endfor %}";
    const text = renderConversation(compileChatTemplate(source), { messages: turns.slice(1), tools: [tool("f")] });
    expect(text).toBe(
      "respond with <|tool_call|><|start_of_role|>user<|end_of_role|>Go<|end_of_text|>" +
        '<|start_of_role|>assistant<|end_of_role|>On it.\n<|tool_call|>[{"name": "f", "arguments": {"x": 1.0, "s": "it\'s", "n": null}}, {"name": "g", "arguments": {}}]<|end_of_text|>' +
        "<|start_of_role|>tool_response<|end_of_role|>one<|end_of_text|><|start_of_role|>tool_response<|end_of_role|>two<|end_of_text|>" +
        '<|start_of_role|>assistant<|end_of_role|><|tool_call|>[{"name": "f", "arguments": {"x": [true]}}]<|end_of_text|>' +
        "<|start_of_role|>tool_response<|end_of_role|>three<|end_of_text|>",
    );
  });

  it("LFM2: calls between their marks", () => {
    const source =
      "{%- if tools -%}{{ 'List of tools: <|tool_list_start|>[' + (tools | map('tojson') | join(', ')) + ']<|tool_list_end|>' }}{%- endif -%}" +
      "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{%- if m['role'] == 'tool' -%}{{ '<|tool_response_start|>' + m['content'] + '<|tool_response_end|>' }}" +
      "{%- else -%}{{ m['content'] }}{%- endif -%}{{ '<|im_end|>\n' }}{% endfor %}";
    const text = renderConversation(compileChatTemplate(source), { messages: turns.slice(1), tools: [tool("f")] });
    expect(text).toContain('<|tool_list_start|>[{"type": "function", "function": {"name": "f"');
    expect(text).toContain(
      '<|im_start|>assistant\nOn it.\n<|tool_call_start|>[f(x=1.0, s="it\'s", n=None), g()]<|tool_call_end|><|im_end|>\n' +
        "<|im_start|>tool\n<|tool_response_start|>one<|tool_response_end|><|im_end|>\n",
    );
    expect(text).toContain("<|im_start|>assistant\n<|tool_call_start|>[f(x=[True])]<|tool_call_end|><|im_end|>\n");
  });

  it("LFM2.5: calls that the template writes, of messages whose content it goes through, and thoughts under its name", () => {
    const source =
      "{%- macro text(content) -%}{%- if content is string -%}{{ content }}{%- else -%}{%- for item in content -%}{{ item.text }}{%- endfor -%}{%- endif -%}{%- endmacro -%}" +
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{%- if m.thinking is defined -%}{{ '<think>' + m.thinking + '</think>' }}{%- endif -%}{{ text(m.content) }}" +
      "{%- if m.tool_calls is defined -%}<|tool_call_start|>[{% for call in m.tool_calls %}{{ call.function.name }}(){% endfor %}]<|tool_call_end|>{%- endif -%}{{ '<|im_end|>\n' }}{% endfor %}";
    const [, , , , , asks] = turns;
    const messages = [turns[1]!, { ...asks!, reasoning: "Hm." }, { role: "assistant", content: "a", reasoning: "" }];
    expect(renderConversation(compileChatTemplate(source), { messages })).toBe(
      "<|im_start|>user\nGo<|im_end|>\n" +
        "<|im_start|>assistant\n<think>Hm.</think><|tool_call_start|>[f()]<|tool_call_end|><|im_end|>\n" +
        "<|im_start|>assistant\na<|im_end|>\n",
    );
  });

  it("Ministral: a message that only calls tools has an empty content, whose length its template asks for", () => {
    expect(rendered("ministral", { messages: turns, specialTokens: { eos_token: "</s>" } })).toContain(
      '[TOOL_RESULTS]two[/TOOL_RESULTS][TOOL_CALLS]f[ARGS]{"x": [true]}</s>[TOOL_RESULTS]three',
    );
  });

  it("SmolLM: tools under the name that its template has for them, and calls", () => {
    const text = rendered("smollm", { tools: [tool("f")] });
    expect(text).toContain("{'type': 'function', 'function': {'name': 'f', 'description': 'd', 'parameters'");
    expect(text).toContain(
      'On it.\n<tool_call>\n{"name": "f", "arguments": {"x": 1.0, "s": "it\'s", "n": null}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call><|im_end|>',
    );
    const python = rendered("smollm", { tools: [tool("f")], kwargs: { python_tools: ["def f(x)"] } });
    expect(python).toContain("def f(x)");
    expect(python).not.toContain('<tool_call>\n{"name": <function-name>');
  });

  it("Ministral: thoughts as parts of their own", () => {
    const messages = [
      { role: "system", content: "s" },
      { role: "user", content: "Why?" },
      { role: "assistant", content: "Because.", reasoning: "Hm." },
      { role: "user", content: [{ type: "text", text: "Sure?" }] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Well." },
          { type: "text", text: "Yes." },
        ],
      },
    ];
    expect(rendered("ministral", { messages, addGenerationPrompt: false, specialTokens: { eos_token: "</s>" } })).toBe(
      "[SYSTEM_PROMPT]s[/SYSTEM_PROMPT][INST]Why?[/INST][THINK]Hm.[/THINK]Because.</s>[INST]Sure?[/INST][THINK]Well.[/THINK]Yes.</s>",
    );
    const open = {
      messages: [...messages.slice(0, 2), { role: "assistant", content: "Bec" }],
      continueFinalMessage: true,
    };
    expect(rendered("ministral", open)).toMatch(/\[\/INST\]Bec$/);
  });

  it("Mistral: ids of calls that are too long, shortened alike in the call and in what answers it", () => {
    const call = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } });
    const messages = [
      { role: "user", content: "Ask." },
      { role: "assistant", tool_calls: [call("call_0123456789abcdef"), call("c-1"), call("abcdef123")] },
      { role: "tool", tool_call_id: "call_0123456789abcdef", content: "1" },
      { role: "tool", tool_call_id: "c-1", content: "2" },
    ];
    const text = rendered("mistral_strict", { messages, specialTokens: { eos_token: "</s>" } });
    for (const id of ["789abcdef", "0000000c1"]) {
      expect(text).toContain(`"id": "${id}"`);
      expect(text).toContain(`"call_id": "${id}"`);
    }
    expect(text).toContain('"id": "abcdef123"');
  });

  it.each([
    ["qwen3_5", "enable_thinking", "<think>\n\n</think>\n\n", "<think>\n"],
    ["qwen3_5_small", "enable_thinking", "<think>\n\n</think>\n\n", "<think>\n"],
    ["smollm", "enable_thinking", "<think>\n\n</think>\n", "assistant\n"],
    ["granite_thinking", "thinking", "You are careful.<|end_of_text|>", "'Here is my thought process:'"],
  ])("%s: reasoning_effort switches %s", (name, kwarg, off, on) => {
    const messages = [{ role: "user", content: "Why?" }];
    expect(rendered(name, { messages, reasoningEffort: "none" })).toContain(off);
    const thinking = rendered(name, { messages, reasoningEffort: "high" });
    expect(thinking).toContain(on);
    expect(thinking).not.toContain(off);
    expect(rendered(name, { messages, reasoningEffort: "none", kwargs: { [kwarg]: true } })).toBe(thinking);
  });
});

describe("contents", () => {
  const parts = [
    { type: "text", text: "a" },
    { type: "input_text", text: "b", cache: 1 },
    { type: "output_text", text: "c" },
    { type: "refusal", refusal: "d" },
    { type: "thinking", thinking: "e" },
    "f",
  ];

  it("are one text for a template that does not take them apart", () => {
    expect(show(shown, { role: "user", content: parts })).toEqual([{ role: "user", content: "a\nb\nc\nd\ne\nf" }]);
    expect(show(shown, { role: "user" }, { role: "user", content: null }, { role: "user", content: [] })).toEqual([
      { role: "user", content: "" },
      { role: "user", content: "" },
      { role: "user", content: "" },
    ]);
  });

  it("are parts for a template that takes them apart", () => {
    const rendered = renderConversation(shownParts, { messages: [{ role: "user", content: parts }] });
    const expected = ["a", "b", "c", "d", "e", "f"].map((text) => {
      return text === "b" ? '{"cache": 1, "type": "text", "text": "b"}' : `{"type": "text", "text": "${text}"}`;
    });
    expect(rendered).toBe(expected.join(""));
    const plain = renderConversation(shownParts, { messages: [{ role: "user", content: "hi" }] });
    expect(plain).toBe('{"type": "text", "text": "hi"}');
  });

  it("of tools are one text in either form", () => {
    const vision = readTemplate("vision_macro");
    const content = [{ type: "text", text: "a" }, "b"];
    expect(renderConversation(vision, { messages: [{ role: "tool", content }] })).toContain("[TOOL]\na\nb\n");
  });

  it.each<[content: unknown, location: string]>([
    [[{ text: "no type" }], "messages.1.content.0.type"],
    [["a", { type: "image_url", image_url: {} }], "messages.1.content.1.type"],
    [[{ type: "text" }], "messages.1.content.0.text"],
    [[{ type: "refusal", text: "x" }], "messages.1.content.0.refusal"],
    [[3], "messages.1.content.0"],
    [{ type: "text" }, "messages.1.content"],
  ])("that are no text are refused by place: %j", (content, location) => {
    const messages = [
      { role: "user", content: "a" },
      { role: "user", content: content as string },
    ];
    expect(failure(() => renderConversation(chatml, { messages })).location).toBe(location);
  });
});

describe("messages", () => {
  const call = (given: unknown) => ({ id: "c1", type: "function", function: { name: "f", arguments: given } });

  it("keep name and tool_call_id, and show nothing else that they carry", () => {
    const message = { role: "tool", content: "x", name: "n", tool_call_id: "c1" };
    const more = { tool_calls: [], audio: null, reasoning: null, extra: 1, tools: [], prefix: true };
    expect(show(shown, { ...message, ...more })).toEqual([message]);
    expect(show(shown, { role: "user", content: "x", tool_call_id: "c1", weight: 0.5 })).toEqual([
      { role: "user", content: "x" },
    ]);
  });

  it("have the arguments of their calls parsed, in Python's eyes", () => {
    const message = { role: "assistant", tool_calls: [call('{"2": 1.0, "1": 12345678901234567890}')] };
    const line = renderConversation(shown, { messages: [message] });
    expect(line).toContain('"arguments": {"2": 1.0, "1": 12345678901234567890}');
    expect(line).toContain('"content": null');
    for (const empty of ["", " ", null, undefined, {}]) {
      const [rendered] = show(shown, { role: "assistant", content: "a", tool_calls: [call(empty)] });
      expect(rendered).toMatchObject({ content: "a", tool_calls: [{ id: "c1", function: { arguments: {} } }] });
    }
    expect(show(shown, { role: "assistant", tool_calls: [] })).toEqual([{ role: "assistant", content: "" }]);
  });

  it("show an empty object for arguments that are none, so that a model's mistake does not end the conversation", () => {
    for (const broken of [
      '{"a": 1',
      "add 2 and 3",
      "{'a': 1}",
      "[1]",
      "null",
      "3",
      '"a"',
      3,
      [1],
      new Number(3),
      true,
    ]) {
      const [rendered] = show(shown, { role: "assistant", tool_calls: [call(broken)] });
      expect(rendered).toMatchObject({ tool_calls: [{ function: { name: "f", arguments: {} } }] });
    }
  });

  it.each<[calls: unknown, location: string]>([
    [[call({}), { function: 3 }], "messages.0.tool_calls.1.function"],
    [[{ type: "custom", function: { name: "f" } }], "messages.0.tool_calls.0.type"],
    [[{ type: "function" }], "messages.0.tool_calls.0.function"],
    [[{ function: {} }], "messages.0.tool_calls.0.function.name"],
    [["f"], "messages.0.tool_calls.0"],
    [{}, "messages.0.tool_calls"],
  ])("with calls that are none are refused by place: %j", (calls, location) => {
    const messages = [{ role: "assistant", tool_calls: calls }];
    expect(failure(() => renderConversation(chatml, { messages })).location).toBe(location);
  });

  it("carry reasoning under both of its names", () => {
    const both = { role: "assistant", content: "a", reasoning: "r", reasoning_content: "r" };
    expect(show(shown, { role: "assistant", content: "a", reasoning: "r" })).toEqual([both]);
    expect(show(shown, { role: "assistant", content: "a", reasoning_content: "r" })).toEqual([both]);
    expect(show(shown, { role: "user", content: "a", reasoning: "r" })).toEqual([{ role: "user", content: "a" }]);
    const wrong = [{ role: "assistant", content: "a", reasoning: 3 }];
    expect(failure(() => renderConversation(shown, { messages: wrong })).location).toBe("messages.0.reasoning");
    const other = [{ role: "assistant", content: "a", reasoning: null, reasoning_content: 7 }];
    expect(failure(() => renderConversation(shown, { messages: other })).location).toBe("messages.0.reasoning_content");
  });

  it("of a developer are the system's where the template knows no developer", () => {
    const developer = { role: "developer", content: "Two.", tools: [{ name: "t" }] };
    const user = { role: "user", content: "c" };
    expect(show(shown, { role: "system", content: "One." }, developer, user)).toEqual([
      { role: "system", content: "One.\n\nTwo." },
      user,
    ]);
    const late = { role: "system", content: "Three." };
    expect(show(shown, user, developer)).toEqual([{ role: "system", content: "Two." }, user]);
    expect(show(shown, { role: "system", content: "One." }, user, developer, user, late)).toEqual([
      { role: "system", content: "One.\n\nTwo.\n\nThree." },
      user,
      user,
    ]);
    const parts = renderConversation(shownParts, {
      messages: [user, { role: "system", content: ["a", "b"] }, developer],
    });
    expect(parts).toContain('{"type": "text", "text": "a\\nb\\n\\nTwo."}');
    const knows = compileChatTemplate("{% for m in messages %}{{ m.role == 'developer' }}{% endfor %}");
    expect(renderConversation(knows, { messages: [developer] })).toBe("True");
    const tools = compileChatTemplate(
      "{% for m in messages %}{{ m.role == 'developer' }}{{ m.tools | tojson }}{% endfor %}",
    );
    expect(renderConversation(tools, { messages: [developer] })).toBe('True[{"name": "t"}]');
    const systems = [
      { role: "system", content: "One." },
      { role: "system", content: "Two." },
    ];
    expect(show(shown, ...systems)).toEqual(systems);
  });

  it("of a system that speaks later stand at the beginning where the template refuses them, as Claude Code sends them", () => {
    const user = { role: "user", content: "u" };
    const [one, two] = ["One.", "Two."].map((content) => ({ role: "system", content }));
    for (const name of ["qwen3_5", "mistral_strict", "gemma_parts"]) {
      const template = readTemplate(name);
      const merged = { role: "system", content: "One.\n\nTwo." };
      const reply = { role: "assistant", content: "a" };
      const render = (messages: ConversationMessage[], more: Partial<Conversation> = {}) =>
        renderConversation(template, { messages, specialTokens: { bos_token: "<s>", eos_token: "</s>" }, ...more });
      const text = render([merged, user, reply, user]);
      expect(render([one!, user, two!, reply, user])).toBe(text);
      expect(render([one!, two!, user, reply, user])).toBe(text);
      expect(text.match(/One\.\n\nTwo\./g)).toHaveLength(1);
      const open = { continueFinalMessage: true };
      expect(render([one!, user, two!, reply], open)).toBe(render([merged, user, reply], open));
    }
    expect(renderConversation(chatml, { messages: [one!, user, two!] })).toMatch(/One\..*Two\./s);
    const refused = { messages: [user, user, two!] };
    expect(() => renderConversation(readTemplate("mistral_strict"), refused)).toThrow("must alternate");
  });

  it("without a role are refused", () => {
    const messages = [{ content: "a" } as unknown as ConversationMessage];
    expect(failure(() => renderConversation(chatml, { messages })).location).toBe("messages.0.role");
  });
});

describe("variables", () => {
  const messages = [{ role: "user", content: "a" }];
  const variable = (source: string, conversation: Partial<Conversation> = {}) =>
    renderConversation(compileChatTemplate(source), { messages, ...conversation });

  it("are none, not undefined, where nothing was given", () => {
    const source =
      "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ enable_thinking is defined }}";
    expect(variable(source)).toBe("TrueTrueTrueFalse");
    expect(variable("{{ tools }}", { tools: [] })).toBe("None");
  });

  it("tell floats from integers where they are Number objects", () => {
    const parameters = {
      default: new Number(1),
      maximum: 1,
      multipleOf: 0.5,
      minimum: new Number(-0),
      most: 2n ** 64n,
    };
    const conversation = {
      tools: [{ type: "function", function: { name: "f", parameters } }],
      kwargs: { scale: new Number(2000) },
    };
    expect(variable("{{ tools[0].function.parameters | tojson }} {{ scale }}", conversation)).toBe(
      '{"default": 1.0, "maximum": 1, "multipleOf": 0.5, "minimum": -0.0, "most": 18446744073709551616} 2000.0',
    );
  });

  it("come from special tokens, then kwargs, then the request's own fields", () => {
    const specialTokens = { bos_token: "<s>", eos_token: "</s>" };
    const kwargs = { eos_token: "<end>", tools: [1], add_generation_prompt: true, mine: { a: 1 } };
    const source = "{{ bos_token }}{{ eos_token }}{{ tools }}{{ add_generation_prompt }}{{ mine.a }}";
    expect(variable(source, { specialTokens, kwargs, tools: [2], addGenerationPrompt: false })).toBe(
      "<s><end>[2]False1",
    );
  });

  it("turn thinking on with an effort, where the template knows of it and the request says nothing", () => {
    const source = "{{ reasoning_effort }} {{ enable_thinking }}";
    expect(variable(source, { reasoningEffort: "low" })).toBe("low True");
    expect(variable(source, { reasoningEffort: "none" })).toBe("none False");
    expect(variable(source, { reasoningEffort: "low", kwargs: { enable_thinking: false } })).toBe("low False");
  });
});

describe("the last message continued", () => {
  const messages = (content: ConversationMessage["content"]) => [
    { role: "user", content: "Hi" },
    { role: "assistant", content },
  ];
  const continued = (template: ChatTemplate, content: ConversationMessage["content"]) =>
    renderConversation(template, { messages: messages(content), continueFinalMessage: true });

  it("stays open at its end, its spaces kept", () => {
    const start = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    expect(continued(chatml, "Sure, the ")).toBe(`${start}Sure, the `);
    expect(continued(chatml, "Sure\n\n")).toBe(`${start}Sure\n\n`);
    for (const empty of ["", null, undefined]) expect(continued(chatml, empty)).toBe(start);
    expect(continued(readTemplate("gemma_parts"), [])).toBe(continued(readTemplate("gemma_parts"), ""));
    expect(continued(chatml, [{ type: "text", text: "a" }, "b"])).toBe(`${start}a\nb`);
    const partly = renderConversation(chatml, {
      messages: [{ role: "user", content: "Hi th" }],
      continueFinalMessage: true,
    });
    expect(partly).toBe("<|im_start|>user\nHi th");
    expect(continued(qwen, "<think>\nhm")).toMatch(/<\|im_start\|>assistant\n<think>\n\n<\/think>\n\n<think>\nhm$/);
  });

  it("is trimmed where the template trims", () => {
    expect(continued(readTemplate("gemma"), "Sure, the ")).toBe(
      "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nSure, the",
    );
  });

  it("is its last part where contents are parts", () => {
    const rendered = continued(readTemplate("gemma_parts"), ["a", "b c"]);
    expect(rendered).toMatch(/<start_of_turn>model\nab c$/);
  });

  it("is refused where there is nothing to continue", () => {
    const dropped = compileChatTemplate("{{ messages[0].content }}");
    expect(failure(() => continued(dropped, "a")).location).toBe("continue_final_message");
    const calls = [{ role: "assistant", tool_calls: [{ function: { name: "f" } }] }];
    const open = () => renderConversation(chatml, { messages: calls, continueFinalMessage: true });
    expect(failure(open).location).toBe("messages.0.content");
    const both = { messages: messages("a"), continueFinalMessage: true, addGenerationPrompt: true };
    expect(failure(() => renderConversation(chatml, both)).location).toBe("continue_final_message");
  });
});
