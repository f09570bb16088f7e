// What messages may be, and what a chat template gets to see of them. Templates here print what they see.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cpuMilliseconds } from "../fixtures/cpuTime.js";
import { scriptedModel, start } from "./scripted.js";
import { hello, Served } from "./served.js";

/** Goes through the parts of a content, so it is given parts. */
const partsTemplate =
  "{% for m in messages %}<|user|>{% for part in m.content %}[{{ part.type }}:{{ part.text }}:{{ part.extra }}]{% endfor %}" +
  "{% endfor %}<|assistant|>";

/** As Gemma's: no system role, turns must alternate. */
const strictTemplate =
  "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" +
  "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}" +
  "{{ raise_exception('roles must alternate') }}{% endif %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}" +
  "{% if add_generation_prompt %}<|assistant|>{% endif %}";

let served: Served;
beforeAll(async () => {
  const models = await Promise.all([
    scriptedModel("m"),
    scriptedModel("parts", { template: partsTemplate }),
    scriptedModel("strict", { template: strictTemplate }),
    scriptedModel("bare", { template: null }),
  ]);
  served = await Served.open({ models: models.map(({ model }) => model), toolParser: "none" });
});
afterAll(() => served?.close());

/** The text of the prompt that a request becomes. */
async function prompt(body: Record<string, unknown>, spell = (json: string) => json): Promise<string> {
  const json = JSON.stringify({ messages: hello, max_tokens: 1, ...body, return_token_ids: true });
  const { prompt_token_ids } = await served.chat(spell(json));
  const response = await served.request("POST", "/detokenize", { tokens: prompt_token_ids, model: body.model });
  return ((await response.json()) as { prompt: string }).prompt;
}

/** What a template of the request's own makes of the messages. */
const seen = (template: string, messages: unknown[], more: object = {}) =>
  prompt({ messages, chat_template: template, ...more });

const dump = "{% for m in messages %}{{ m | tojson }};{% endfor %}";

describe("content", () => {
  test.each([
    ["null", { role: "user", content: null }],
    ["absent", { role: "user" }],
    ["an empty list", { role: "user", content: [] }],
  ])("%s is the empty text", async (_, message) => {
    expect(await seen(dump, [message])).toBe('{"role": "user", "content": ""};');
  });

  test("text parts are joined with a newline, of every text type and bare strings", async () => {
    const content = [
      { type: "text", text: "a" },
      { type: "input_text", text: "b" },
      { type: "output_text", text: "c" },
      { type: "refusal", refusal: "d" },
      { type: "thinking", thinking: "e" },
      "f",
    ];
    expect(await prompt({ messages: [{ role: "user", content }] })).toBe(
      "<|user|>a\nb\nc\nd\ne\nf<|end|><|assistant|>",
    );
  });

  test("a template that goes through parts gets parts, with their extra keys", async () => {
    const content = ["bare", { type: "input_text", text: "b", extra: "more" }];
    const messages = [
      { role: "user", content: "plain" },
      { role: "user", content },
    ];
    expect(await prompt({ model: "parts", messages })).toBe(
      "<|user|>[text:plain:]<|user|>[text:bare:][text:b:more]<|assistant|>",
    );
  });

  test.each([
    [{ type: "image_url", image_url: { url: "data:," } }],
    [{ type: "input_audio", input_audio: {} }],
    [{ type: "video_url", video_url: {} }],
    [{ type: "nonsense" }],
  ])("the part %j is refused", async (part) => {
    await served.refusal({ messages: [{ role: "user", content: [part] }] }, "messages.0.content.0.type");
  });

  test("a part without a type, and one that is no part", async () => {
    await served.refusal({ messages: [{ role: "user", content: [{ text: "a" }] }] }, "messages.0.content.0.type");
    await served.refusal({ messages: [{ role: "user", content: ["a", 7] }] }, "messages.0.content.1");
  });
});

describe("fields of messages", () => {
  test("name is forwarded", async () => {
    expect(await seen(dump, [{ role: "user", content: "a", name: "Bo" }])).toBe(
      '{"role": "user", "content": "a", "name": "Bo"};',
    );
  });

  test("tool messages keep their call's id, and their parts become one text", async () => {
    const message = {
      role: "tool",
      tool_call_id: "c1",
      content: [
        { type: "text", text: "1" },
        { type: "text", text: "2" },
      ],
    };
    expect(await seen("{{ messages[0].tool_call_id }}={{ messages[0].content }}", [message])).toBe("c1=1\n2");
  });

  test("arguments of tool calls are parsed; none, and what is no object, are an empty one", async () => {
    const call = (args: unknown) => ({ id: "c", type: "function", function: { name: "f", arguments: args } });
    const message = (...args: unknown[]) => ({ role: "assistant", content: null, tool_calls: args.map(call) });
    const template = "{% for c in messages[0].tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}";
    expect(await seen(template, [message('{"a": 1.0}', "", null, { b: [2] })])).toBe('{"a": 1.0}{}{}{"b": [2]}');
    expect(await seen(template, [message(5, [1], "[1]", "5", '"a"', "true")])).toBe("{}{}{}{}{}{}");
  });

  test("arguments that a model broke can be sent back, and are an empty object", async () => {
    const call = { id: "c", type: "function", function: { name: "f", arguments: '{"a": ' } };
    const messages = [
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c", content: "not JSON" },
    ];
    const template = "{% for k, v in messages[0].tool_calls[0].function.arguments | items %}{{ k }}{% endfor %}.";
    expect(await seen(template, messages)).toBe(".");
  });

  test("fields that no template is shown are accepted", async () => {
    const extra = { refusal: null, audio: { id: "a" }, weight: 1, annotations: [], prefix: true, tool_call_id: "c" };
    expect(await seen(dump, [{ role: "user", content: "a", name: "n", ...extra }])).toBe(
      '{"role": "user", "content": "a", "name": "n"};',
    );
  });

  test("a message that only calls has no content, and an empty list of calls is dropped", async () => {
    const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
    const template = "{{ messages[0].content is none }},{{ messages[1].tool_calls is defined }}";
    const messages = [
      { role: "assistant", tool_calls: [call] },
      { role: "assistant", content: "a", tool_calls: [] },
    ];
    expect(await seen(template, messages)).toBe("True,False");
  });

  test("calls of other types are refused", async () => {
    const message = { role: "assistant", tool_calls: [{ id: "c", type: "custom", custom: {} }] };
    await served.refusal({ messages: [message] }, "messages.0.tool_calls.0.type");
  });

  test.each(["reasoning", "reasoning_content"])("%s is shown under both of its names", async (field) => {
    const message = { role: "assistant", content: "a", [field]: "hm" };
    expect(await seen("{{ messages[0].reasoning }},{{ messages[0].reasoning_content }}", [message])).toBe("hm,hm");
  });
});

describe("roles that a template does not know", () => {
  test("developer messages speak as the system, merged with all that the system says anywhere", async () => {
    const messages = [
      { role: "system", content: "one" },
      { role: "developer", content: "two" },
      ...hello,
      { role: "developer", content: "three" },
    ];
    expect(await seen("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}", messages)).toBe(
      "system:one\n\ntwo\n\nthree;user:Hello;",
    );
  });

  test("a template that mentions the developer gets developer messages", async () => {
    const template =
      "{% for m in messages %}{% if m.role == 'developer' %}D{% else %}{{ m.role }}{% endif %}{% endfor %}";
    expect(await seen(template, [{ role: "developer", content: "x" }])).toBe("D");
  });

  test("what a template raises is a validation error with its words", async () => {
    const messages = [{ role: "system", content: "x" }, ...hello];
    const refusal = await served.refusal({ model: "strict", messages }, "messages");
    expect(refusal.error.message).toContain("System role not supported");
    const twice = await served.refusal({ model: "strict", messages: [...hello, ...hello] }, "messages");
    expect(twice.error.message).toContain("roles must alternate");
  });
});

describe("template variables", () => {
  test("fields win over chat_template_kwargs, which win over special tokens", async () => {
    const template = "{{ bos_token }},{{ eos_token }},{{ documents[0].title }},{{ reasoning_effort }}";
    const more = {
      documents: [{ title: "field", text: "" }],
      reasoning_effort: "high",
      chat_template_kwargs: { bos_token: "own", documents: [{ title: "kwarg" }], reasoning_effort: "low" },
    };
    expect(await seen(template, hello, more)).toBe("own,<|end|>,field,high");
  });

  test("reasoning_effort turns thinking on where the template asks, unless the caller has decided", async () => {
    const template = "{{ enable_thinking }}!";
    expect(await seen(template, hello, { reasoning_effort: "low" })).toBe("True!");
    const off = { reasoning_effort: "low", chat_template_kwargs: { enable_thinking: false } };
    expect(await seen(template, hello, off)).toBe("False!");
  });

  test("tools reach the template as vLLM shows them, an empty list is none", async () => {
    const template =
      "{% if tools %}{% for t in tools %}{{ t.function.name }}:{{ t.function.parameters | tojson }}{% endfor %}{% else %}none{% endif %}";
    const tools = [{ type: "function", function: { name: "f" } }];
    expect(await seen(template, hello, { tools })).toBe("f:null");
    expect(await seen(template, hello, { tools, tool_choice: "none" })).toBe("f:null");
    const known = { name: "f", description: "d", parameters: { type: "object", x: 1 } };
    const more = [{ type: "function", other: 1, function: { strict: true, ...known, extra: 2 } }];
    expect(await seen("{{ tools | tojson }}", hello, { tools: more })).toBe(
      '[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "x": 1}, "strict": true}}]',
    );
    const loose = [{ type: "function", function: { strict: false, name: "f" } }];
    expect(await seen("{{ tools[0].function | tojson }}", hello, { tools: loose })).toBe(
      '{"name": "f", "description": null, "parameters": null, "strict": false}',
    );
    const unsaid = [{ type: "function", function: { strict: null, name: "f" } }];
    expect(await seen("{{ tools[0].function | tojson }}", hello, { tools: unsaid })).toBe(
      '{"name": "f", "description": null, "parameters": null}',
    );
    expect(await seen("{{ tools | tojson }}", hello, { tools })).toBe(
      '[{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}]',
    );
    expect(await seen(template, hello, { tools: [] })).toBe("none");
  });

  test("numbers keep their spelling in tools, arguments and chat_template_kwargs", async () => {
    const spell = (json: string) => json.replace(/"=([^"]*)"/g, "$1");
    const parameters = {
      default: "=1.0",
      minimum: "=-0.0",
      maximum: "=1e3",
      multipleOf: "=1",
      most: "=12345678901234567890",
    };
    const template = "{{ tools[0].function.parameters | tojson }} {{ scale }} {{ one }}";
    const body = {
      tools: [{ type: "function", function: { name: "f", parameters } }],
      chat_template_kwargs: { scale: "=0.50e1", one: "=1" },
    };
    expect(await prompt({ ...body, chat_template: template }, spell)).toBe(
      '{"default": 1.0, "minimum": -0.0, "maximum": 1000.0, "multipleOf": 1, "most": 12345678901234567890} 5.0 1',
    );
    const call = { id: "c", type: "function", function: { name: "f", arguments: { a: "=3.0" } } };
    const calls = { messages: [{ role: "assistant", tool_calls: [call] }] };
    const shown = "{{ messages[0].tool_calls[0].function.arguments | tojson }}";
    expect(await prompt({ ...calls, chat_template: shown }, spell)).toBe('{"a": 3.0}');
  });

  test("tojson writes as Python does", async () => {
    const template = "{{ value | tojson }}";
    const more = { chat_template_kwargs: { value: { a: [1, true, null], "é<": "'" } } };
    expect(await seen(template, hello, more)).toBe('{"a": [1, true, null], "é<": "\'"}');
  });

  test("a request's template also comes in chat_template_kwargs", async () => {
    expect(await prompt({ chat_template_kwargs: { chat_template: "own" } })).toBe("own");
  });
});

describe("a request's template", () => {
  test("is needed where the model has none", async () => {
    const refusal = await served.refusal({ model: "bare" }, "chat_template");
    expect(refusal.error.param).toBe("chat_template");
    expect(await prompt({ model: "bare", chat_template: "x{{ messages[0].content }}" })).toBe("xHello");
  });

  test.each([
    ["loops for ever", "{% for i in range(1000000000) %}x{% endfor %}"],
    [
      "grows for ever",
      "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    ],
    ["calls itself for ever", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"],
    ["reaches for the host", "{{ messages.constructor.constructor('return process')() }}"],
    ["reaches for Python's inside", "{{ ''.__class__.__mro__ }}{{ raise_exception('x') }}"],
    ["is cut off", "{% if x %}"],
  ])("that %s is refused, soon", async (_, chat_template) => {
    const before = cpuMilliseconds();
    const response = await served.post({ chat_template });
    expect(response.status, await response.text()).toBe(422);
    expect(cpuMilliseconds() - before).toBeLessThan(10_000);
  });

  test("that makes nothing of the messages is refused", async () => {
    await served.refusal({ chat_template: "{# nothing #}" }, "messages");
  });
});

describe("add_generation_prompt and continue_final_message", () => {
  const open = [...hello, { role: "assistant", content: "One" }];

  test("without a generation prompt the reply has the last message's role", async () => {
    const answer = await served.chat({ messages: hello, add_generation_prompt: false, max_tokens: 2 });
    expect(answer.choices[0]!.message.role).toBe("user");
    expect(await prompt({ add_generation_prompt: false })).toBe("<|user|>Hello<|end|>");
  });

  test.each([{}, { add_generation_prompt: false }, { add_generation_prompt: null }])(
    "the last message is continued with %j",
    async (more) => {
      const body = { messages: open, continue_final_message: true, ...more };
      expect(await prompt(body)).toBe("<|user|>Hello<|end|><|assistant|>One");
      const { choices } = await served.chat(body);
      expect(choices[0]).toMatchObject({ message: { role: "assistant", content: " two three four five" } });
    },
  );

  test("a list of parts is continued after its last text", async () => {
    const messages = [
      ...hello,
      {
        role: "assistant",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "One" },
        ],
      },
    ];
    expect(await prompt({ messages, continue_final_message: true })).toBe("<|user|>Hello<|end|><|assistant|>a\nOne");
  });

  test("a template that trims loses the white space at the end", async () => {
    const messages = [...hello, { role: "assistant", content: "One  " }];
    const body = { messages, continue_final_message: true };
    expect(await prompt({ ...body, model: "strict" })).toBe("<|user|>Hello<|end|><|assistant|>One");
    expect(await prompt(body)).toBe("<|user|>Hello<|end|><|assistant|>One  ");
  });

  test.each([{ content: null }, {}])("a last message with %j is empty", async (content) => {
    const messages = [...hello, { role: "assistant", ...content }];
    expect(await prompt({ messages, continue_final_message: true })).toBe("<|user|>Hello<|end|><|assistant|>");
  });

  test("but not one that calls tools and says nothing", async () => {
    const call = { type: "function", function: { name: "f", arguments: "{}" } };
    const messages = [...hello, { role: "assistant", content: null, tool_calls: [call] }];
    expect((await served.post({ messages, continue_final_message: true })).status).toBe(422);
  });

  test("nor one that the template does not show", async () => {
    const body = { messages: open, continue_final_message: true, chat_template: "{{ messages[0].content }}" };
    expect((await served.post(body)).status).toBe(422);
  });
});

describe("echo", () => {
  const open = { messages: [...hello, { role: "assistant", content: [{ type: "text", text: "a" }, "One"] }] };
  const body = { ...open, continue_final_message: true, echo: true, return_token_ids: true, logprobs: true };

  test("puts the last message's text before the reply, and counts nothing for it", async () => {
    const { choices, usage, prompt_logprobs } = await served.chat(body);
    expect(choices[0]!.message.content).toBe("a\nOne two three four five");
    expect(usage.completion_tokens).toBe(5);
    expect(choices[0]!.token_ids).toHaveLength(5);
    expect(choices[0]!.logprobs!.content).toHaveLength(5);
    // As if prompt_logprobs were top_logprobs.
    expect(prompt_logprobs).toHaveLength(usage.prompt_tokens);
    expect(Object.keys(prompt_logprobs![1]!)).toHaveLength(1);
  });

  test("is a chunk of its own after the role's", async () => {
    const chunks = await served.chunks(body);
    expect(chunks[0]!.choices[0]!.delta).toEqual({ role: "assistant", content: "" });
    expect(chunks[1]!.choices[0]!.delta).toEqual({ content: "a\nOne" });
    expect(chunks[2]!.choices[0]!.delta).toEqual({ content: " two" });
  });

  test("does nothing when the roles differ", async () => {
    const { choices, prompt_logprobs } = await served.chat({ echo: true, ...start("[words]") });
    expect(choices[0]!.message.content).toBe("One two three four five");
    expect(prompt_logprobs).not.toBeNull();
  });
});

test("add_special_tokens adds what the tokenizer adds", async () => {
  expect(await prompt({})).toBe("<|user|>Hello<|end|><|assistant|>");
  expect(await prompt({ add_special_tokens: true })).toBe("<|bos|><|user|>Hello<|end|><|assistant|>");
});
