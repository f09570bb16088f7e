import { describe, expect, test } from "vitest";
import { CHATML, CHATML_WITH_THOUGHTS, CHATML_WITH_TOOLS, openChat, refusal } from "../../../test/fixtures/chatHost.js";
import { ValidationError } from "../../errors.js";
import type { SlotParams } from "../../runtime/runtime.js";
import type { ChatCompletionChunk } from "../../types/chat.js";

const tool = (name: string) => ({ type: "function", function: { name, parameters: { type: "object" } } });
const tools = [tool("add"), tool("sub")];
const one = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": [2, "}"]}}\n</tool_call>';
const two = '<tool_call>\n{"name": "sub", "arguments": {}}\n</tool_call>';

const withTools = (says: string, toolParser: "auto" | "none" | "hermes" | "llama3" = "auto") =>
  openChat({ says, toolParser, template: CHATML_WITH_TOOLS });
const withThoughts = (says: string, template = CHATML_WITH_THOUGHTS) => openChat({ says, template });

/** Chunks put together again, as a client does it. */
function assembled(chunks: ChatCompletionChunk[]) {
  let content = "";
  let reasoning = "";
  const calls: { id?: string; name: string; arguments: string }[] = [];
  for (const { delta } of chunks.flatMap((chunk) => chunk.choices)) {
    content += delta.content ?? "";
    reasoning += delta.reasoning ?? "";
    for (const call of delta.tool_calls ?? []) {
      if (call.id !== undefined) {
        expect(calls).toHaveLength(call.index);
        calls.push({ id: call.id, name: call.function.name!, arguments: "" });
      }
      calls[call.index]!.arguments += call.function.arguments ?? "";
    }
  }
  return { content, reasoning, calls };
}

describe("tool calls", () => {
  test("are parsed when tools are given, with the reason tool_calls", async () => {
    const { ask } = await withTools(`Let me see.\n${one}\n${two}`);
    for (const params of [{}, { tool_choice: "auto" }]) {
      const choice = (await ask({ tools, ...params })).choices[0]!;
      expect(choice.finish_reason).toBe("tool_calls");
      expect(choice.message.content).toBe("Let me see.\n");
      expect(choice.message.tool_calls).toEqual([
        { id: expect.stringMatching(/^call_[0-9a-f]{24}$/), type: "function", function: expect.anything() },
        { id: expect.stringMatching(/^call_/), type: "function", function: { name: "sub", arguments: "{}" } },
      ]);
      const [first] = choice.message.tool_calls!;
      expect(first!.function.name).toBe("add");
      expect(JSON.parse(first!.function.arguments)).toEqual({ a: 1, b: [2, "}"] });
    }
  });

  test("without text beside them the content is null", async () => {
    const { ask } = await withTools(one);
    expect((await ask({ tools })).choices[0]!.message.content).toBeNull();
  });

  test("streamed deltas make the same calls", async () => {
    const { ask, chunks } = await withTools(`Let me see.\n${one}\n${two}`);
    const { message } = (await ask({ tools })).choices[0]!;
    const all = await chunks({ tools });
    const { content, calls } = assembled(all);
    expect(content).toBe(message.content);
    expect(calls.map(({ name, arguments: text }) => ({ name, arguments: text }))).toEqual(
      message.tool_calls!.map((call) => call.function),
    );
    expect(all.at(-1)!.choices[0]!.finish_reason).toBe("tool_calls");
    const pieces = all.flatMap((chunk) => chunk.choices[0]!.delta.tool_calls ?? []);
    expect(pieces.length).toBeGreaterThan(calls.length);
  });

  test("end a stream without content", async () => {
    const { chunks } = await withTools(one);
    const last = (all: ChatCompletionChunk[]) => all.at(-1)!.choices[0]!;
    expect(last(await chunks({ tools }))).toMatchObject({ delta: {}, finish_reason: "tool_calls" });
    expect(last(await chunks({ tools })).delta).not.toHaveProperty("content");
    expect(last(await chunks({ tools, tool_choice: "none" })).delta).toEqual({ content: "" });
  });

  test("tool_choice none leaves the text as it is, and the tools in the prompt", async () => {
    const { ask, tokenizer } = await withTools(one);
    const answer = await ask({ tools, tool_choice: "none", return_token_ids: true });
    expect(answer.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: one } });
    expect(answer.choices[0]!.message).not.toHaveProperty("tool_calls");
    expect(tokenizer.decode(answer.prompt_token_ids!)).toContain('"name": "add"');
  });

  test("without a parser tools are accepted, and tool_choice beyond none is refused with the option's name", async () => {
    for (const chat of [await withTools(one, "none"), await openChat({ says: one })]) {
      expect((await chat.ask({ tools })).choices[0]!.message.content).toBe(one);
      expect((await chat.ask({ tools, tool_choice: null })).choices[0]!.message.content).toBe(one);
      for (const tool_choice of ["auto", "required", { type: "function", function: { name: "add" } }]) {
        const error = await chat.ask({ tools, tool_choice }).catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(ValidationError);
        expect(error).toMatchObject({ param: "tool_choice", hint: expect.stringContaining("--tool-parser") });
      }
    }
  });

  test("a parser can be named where the template does not show it", async () => {
    const chat = await openChat({ says: one, toolParser: "hermes" });
    expect((await chat.ask({ tools })).choices[0]!.message.tool_calls).toHaveLength(1);
    const llama = await openChat({ says: '{"name": "add", "parameters": {"a": 1}}', toolParser: "llama3" });
    expect((await llama.ask({ tools })).choices[0]!.message.tool_calls![0]!.function).toEqual({
      name: "add",
      arguments: '{"a": 1}',
    });
  });

  test.each([false, null])("parallel_tool_calls %s keeps the first", async (parallel_tool_calls) => {
    const { ask, chunks } = await withTools(`${one}\n${two}`);
    const { message } = (await ask({ tools, parallel_tool_calls })).choices[0]!;
    expect(message.tool_calls!.map((call) => call.function.name)).toEqual(["add"]);
    expect(assembled(await chunks({ tools, parallel_tool_calls })).calls.map((call) => call.name)).toEqual(["add"]);
  });

  test("a function that was not offered is not called: the text is content, whole and streamed", async () => {
    const other = '<tool_call>\n{"name": "delete", "arguments": {"all": true}}\n</tool_call>';
    const { ask, chunks } = await withTools(`So:\n${other}\n${one}`);
    const choice = (await ask({ tools })).choices[0]!;
    expect(choice.message.tool_calls!.map((call) => call.function.name)).toEqual(["add"]);
    expect(choice.message.content).toContain(`So:\n${other}`);
    const { content, calls } = assembled(await chunks({ tools }));
    expect([content, calls.map((call) => call.name)]).toEqual([choice.message.content, ["add"]]);
    const alone = (await (await withTools(other)).ask({ tools })).choices[0]!;
    expect(alone).toMatchObject({ finish_reason: "stop", message: { content: other } });
    const early = '{"parameters": {}, "name": "delete"}';
    const llama = await openChat({ says: early, toolParser: "llama3" });
    expect((await llama.ask({ tools })).choices[0]!.message).toMatchObject({ content: early });
    expect(assembled(await llama.chunks({ tools }))).toMatchObject({ content: early, calls: [] });
  });

  test("a forced call is read from what the model says, and counted with it", async () => {
    const { ask, chunks, tokenizer } = await withTools(two);
    for (const tool_choice of ["required", { type: "function", function: { name: "sub" } }]) {
      const params = { tools, tool_choice, return_token_ids: true };
      const answer = await ask(params);
      const choice = answer.choices[0]!;
      expect(choice.finish_reason).toBe("tool_calls");
      expect(choice.message.content).toBeNull();
      expect(choice.message.tool_calls![0]!.function).toEqual({ name: "sub", arguments: "{}" });
      expect(tokenizer.decode(choice.token_ids!)).toBe(two);
      expect(answer.prompt_token_ids).toEqual((await ask({ tools, return_token_ids: true })).prompt_token_ids);
      const { content, calls } = assembled(await chunks(params));
      expect([content, calls[0]!.name, calls[0]!.arguments]).toEqual(["", "sub", "{}"]);
    }
  });

  test("a trained model's choice records that its call was forced", async () => {
    const { ask } = await withTools(two);
    const tool_choice = { type: "function", function: { name: "sub" } };
    const forced = (await ask({ model: "trained", tools, tool_choice })).choices[0]!;
    expect(forced.sampling_settings).toEqual({ tool_choice });
    expect((await ask({ model: "trained", tools })).choices[0]).not.toHaveProperty("sampling_settings");
  });

  test("a call cut off by the limit is content, after those that are whole; a stream has told what came of it", async () => {
    const { ask, chunks, tokenizer } = await withTools(`${two}\n${one}`);
    const said = `${two}\n<tool_call>\n{"name": "add", "arguments": {"a": 1,`;
    const max_tokens = tokenizer.encode(said).length;
    const choice = (await ask({ tools, max_tokens })).choices[0]!;
    expect(choice.finish_reason).toBe("length");
    expect(choice.message.content).toContain('<tool_call>\n{"name": "add", "arguments": {"a": 1,');
    expect(choice.message.tool_calls!.map((call) => call.function)).toEqual([{ name: "sub", arguments: "{}" }]);
    const all = await chunks({ tools, max_tokens });
    expect(all.at(-1)!.choices[0]!.finish_reason).toBe("length");
    expect(assembled(all).calls.map((call) => call.arguments)).toEqual(["{}", '{"a": 1,']);
  });

  const three = '<tool_call>\n{"name": "add", "arguments": {"a": 1}, what}\n</tool_call>';
  test.each([
    ["cut by a stop", "stop", one, { stop: ['"b"'] }, ['{"a": 1, ']],
    ["forced and cut by a stop", "stop", one, { stop: ['"b"'], tool_choice: "required" }, ['{"a": 1, ']],
    ["cut by the end", "stop", one.slice(0, 50), {}, ['{"a": 1, ']],
    ["cut after a whole one", "tool_calls", `${two}\n${one}`, { stop: ['"b"'] }, ["{}", '{"a": 1, ']],
    ["with a fault", "stop", three, {}, ['{"a": 1}']],
    ["with a fault, before a whole one", "tool_calls", `${three}\n${two}`, {}, ['{"a": 1}', "{}"]],
    [
      ...(["with a fault, before the only one", "tool_calls", `${three}\n${two}\n${one}`] as const),
      { parallel_tool_calls: false },
      ['{"a": 1}', "{}"],
    ],
  ])("a call %s: the stream ends for the reason of the whole reply, %s", async (_, reason, said, params, streamed) => {
    const { ask, chunks } = await withTools(said);
    const { finish_reason, stop_reason, message } = (await ask({ tools, ...params })).choices[0]!;
    expect([finish_reason, message.tool_calls !== undefined]).toEqual([reason, reason === "tool_calls"]);
    const all = await chunks({ tools, ...params });
    expect(all.at(-1)!.choices[0]).toMatchObject({ finish_reason, stop_reason });
    expect(assembled(all).calls.map((call) => call.arguments)).toEqual(streamed);
  });

  test("a forced call cut off by the limit is content with its opening", async () => {
    const { ask, tokenizer } = await withTools(one);
    const said = '<tool_call>\n{"name": "add", "arguments": {"a": 1,';
    const params = { tools, tool_choice: { type: "function", function: { name: "add" } } };
    const choice = (await ask({ ...params, max_tokens: tokenizer.encode(said).length })).choices[0]!;
    expect(choice).toMatchObject({ finish_reason: "length", message: { content: said } });
    expect(choice.message).not.toHaveProperty("tool_calls");
  });
});

describe("reasoning", () => {
  const text = "<think>\nHm, let me\n\nsee.\n</think>\n\nIt is 7.";

  test("is apart from the content, whole and streamed", async () => {
    const { ask, chunks } = await withThoughts(text);
    const { message } = (await ask()).choices[0]!;
    expect(message).toMatchObject({ reasoning: "Hm, let me\n\nsee.", content: "It is 7." });
    const all = assembled(await chunks());
    expect(all).toMatchObject({ reasoning: message.reasoning, content: message.content });
  });

  test("is counted apart from the marks, whole, streamed and chunk by chunk; other models count none", async () => {
    const { ask, chunks, tokenizer } = await withThoughts(text);
    const thoughts = tokenizer.encode("\nHm, let me\n\nsee.\n").length;
    const details = { reasoning_tokens: thoughts };
    const { usage } = await ask({ n: 2 });
    expect(usage.completion_tokens_details).toEqual({ reasoning_tokens: 2 * thoughts });
    expect((await ask({ include_reasoning: false })).usage.completion_tokens_details).toEqual(details);
    expect((await ask({ logprobs: true })).usage.completion_tokens_details).toEqual(details);
    const stream_options = { include_usage: true, continuous_usage_stats: true };
    const counts = (await chunks({ stream_options })).map((chunk) => chunk.usage!.completion_tokens_details);
    expect(counts[0]).toEqual({ reasoning_tokens: 0 });
    expect(counts.at(-1)).toEqual(details);
    const told = counts.map((count) => count!.reasoning_tokens!);
    expect([...told].sort((a, b) => a - b)).toEqual(told);
    const cut = await ask({ max_tokens: 3 });
    expect(cut.usage.completion_tokens_details).toEqual({ reasoning_tokens: 2 });
    const silent = await withThoughts("Seven");
    expect((await silent.ask()).usage.completion_tokens_details).toEqual({ reasoning_tokens: 0 });
    const other = await openChat({ says: text });
    expect((await other.ask()).usage).not.toHaveProperty("completion_tokens_details");
  });

  test("is counted by its text where tokens join its marks to what stands beside them", async () => {
    const template = `{#- [THINK] [/THINK] -#}${CHATML}`;
    const thought = "One and two and three and four make ten, I think.";
    const { ask, chunks, tokenizer } = await withThoughts(`[THINK]\n${thought}\n[/THINK]\n\nTen.`, template);
    const count = (await ask()).usage.completion_tokens_details!.reasoning_tokens!;
    expect(Math.abs(count - tokenizer.encode(thought).length)).toBeLessThanOrEqual(2);
    const streamed = (await chunks({ stream_options: { include_usage: true } })).at(-1)!.usage!;
    expect(streamed.completion_tokens_details!.reasoning_tokens).toBe(count);
  });

  test("a prompt that opens the thoughts begins the reply inside them", async () => {
    const template = `${CHATML_WITH_THOUGHTS}{{- '<think>\\n' }}`;
    const { ask } = await withThoughts("Hm.\n</think>\n\nSeven", template);
    const { choices, usage } = await ask();
    expect(choices[0]!.message).toMatchObject({ reasoning: "Hm.", content: "Seven" });
    expect(usage.completion_tokens_details!.reasoning_tokens).toBeGreaterThanOrEqual(2);
  });

  describe("that the last message has begun", () => {
    const continued = (content: string) => ({
      messages: [
        { role: "user", content: "3 + 4?" },
        { role: "assistant", content },
      ],
      continue_final_message: true,
    });

    test.each([CHATML_WITH_THOUGHTS, CHATML])("goes on, whatever the template", async (template) => {
      const { ask, chunks } = await withThoughts(" it is 7.\n</think>\n\nSeven", template);
      const params = continued("<think>\nHm, let me see:");
      const { message } = (await ask(params)).choices[0]!;
      expect(message).toMatchObject({ reasoning: " it is 7.", content: "Seven" });
      expect(assembled(await chunks(params))).toMatchObject({ reasoning: " it is 7.", content: "Seven" });
    });

    test("and is over where it was closed, or never was one", async () => {
      const { ask } = await withThoughts("a b");
      for (const content of ["<think>\nHm\n</think>\n\nIt is", "It is", "A <think> begins"]) {
        expect((await ask(continued(content))).choices[0]!.message).toMatchObject({ reasoning: null, content: "a b" });
      }
    });
  });

  test("a prompt that is cut is read as it is left: its thought may be cut off, whole or in part, or come to its end", async () => {
    const { ask, tokenizer } = await withThoughts("red</think>blue");
    const count = (text: string) => tokenizer.encode(text).length;
    const answered = { reasoning: null, content: "red</think>blue" };
    const thought = { reasoning: "red", content: "blue" };
    const message = async (chat_template: string, keeps: string, params: object) => {
      const kept = { truncate_prompt_tokens: count(keeps), return_token_ids: true };
      const { choices, prompt_token_ids } = await ask({ chat_template, ...kept, ...params });
      expect(tokenizer.decode(prompt_token_ids!, { skipSpecialTokens: false })).toBe(keeps);
      return choices[0]!.message;
    };
    const right = { truncation_side: "right" };
    expect(await message("a b c d <think>", "a b c", right)).toMatchObject(answered);
    expect(await message("a b <think>", "a b <think>", right)).toMatchObject(thought);
    expect(await message("a <think> b c d", "a <think>", right)).toMatchObject(thought);
    expect(await message("a b c <think>", " c <think>", {})).toMatchObject(thought);
    const begun = {
      messages: [
        { role: "user", content: "<think> is" },
        { role: "assistant", content: "<think> one two three" },
      ],
      continue_final_message: true,
    };
    const template = "{% for m in messages %}{{ m.content }};{% endfor %}";
    expect(await message(template, "<think> is;<think> one two", { ...begun, ...right })).toMatchObject(thought);
    expect(await message(template, "<think> is;", { ...begun, ...right })).toMatchObject(answered);
    expect(await message(template, "<think> one two three", begun)).toMatchObject(thought);
    expect(await message(template, " two three", begun)).toMatchObject(answered);
  });

  test("thinking_token_budget needs a model that thinks, and counts the thoughts of the prompt", async () => {
    const { ask, device, tokenizer } = await withThoughts("Hm</think>7");
    const slots: SlotParams[] = [];
    const open = device.openSlot.bind(device);
    device.openSlot = (slot) => {
      slots.push(slot);
      return open(slot);
    };
    const ids = (text: string) => Int32Array.from(tokenizer.encode(text));
    const tags = { open: ids("<think>"), close: ids("</think>") };
    await ask({ thinking_token_budget: 5 });
    const thought = "\nHm, let me";
    const messages = [{ role: "assistant", content: `<think>${thought}` }];
    await ask({ messages, continue_final_message: true, thinking_token_budget: 5 });
    await ask({ thinking_token_budget: -1 });
    expect(slots.map((slot) => slot.thinking)).toEqual([
      { tokens: 5, used: -1, ...tags },
      { tokens: 5, used: ids(thought).length, ...tags },
      null,
    ]);
    const params = { model: "trained", thinking_token_budget: 5 };
    expect((await ask(params)).choices[0]!.sampling_settings).toEqual({ thinking_token_budget: 5 });
    const silent = await openChat({ says: "7" });
    expect((await refusal(silent.ask({ thinking_token_budget: 5 }))).param).toBe("thinking_token_budget");
  });

  test("nothing but thoughts: the content is null", async () => {
    const { ask } = await withThoughts("<think>\nHm");
    expect((await ask()).choices[0]!.message).toMatchObject({ reasoning: "Hm", content: null });
  });

  test("a model that does not reason keeps the text as it is", async () => {
    const { ask } = await openChat({ says: text });
    expect((await ask()).choices[0]!.message).toMatchObject({ reasoning: null, content: text });
  });

  test("include_reasoning false withholds thoughts, logprobs and token ids; usage counts all", async () => {
    const { ask, chunks } = await withThoughts(text);
    const params = { include_reasoning: false, logprobs: true, return_token_ids: true };
    const answer = await ask(params);
    expect(answer.choices[0]).toMatchObject({ logprobs: null, token_ids: null });
    expect(answer.choices[0]!.message).toMatchObject({ reasoning: null, content: "It is 7." });
    expect(answer.usage.completion_tokens).toBe((await ask()).usage.completion_tokens);
    const all = await chunks(params);
    expect(assembled(all)).toMatchObject({ reasoning: "", content: "It is 7." });
    for (const chunk of all) expect(chunk.choices[0]).toMatchObject({ logprobs: null });
  });
});
