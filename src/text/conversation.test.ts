import { describe, expect, it } from "vitest";
import { readReference, readTemplate, shown } from "../../test/fixtures/templates.js";
import { type ChatTemplate, compileChatTemplate } from "../jinja/chatTemplate.js";
import { TemplateError } from "../jinja/errors.js";
import { type Conversation, renderConversation } from "./conversation.js";
import { ConversationError } from "./errors.js";
import type { ConversationMessage } from "./templateMessages.js";

const chatml = readTemplate("chatml");
const qwen = readTemplate("qwen_thinking");
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
  const recorded = JSON.parse(readReference("expected.json")) as Recorded;
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
