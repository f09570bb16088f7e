import { describe, expect, it } from "vitest";
import { readTemplate } from "../../test/fixtures/templates.js";
import { compileChatTemplate } from "../jinja/chatTemplate.js";
import { type Conversation, renderConversation } from "./conversation.js";
import type { ConversationMessage } from "./templateMessages.js";

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
