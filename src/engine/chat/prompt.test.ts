import { describe, expect, test } from "vitest";
import { contentOf, openChat, refusal, says, type TestChat } from "../../../test/fixtures/chatHost.js";

describe("the prompt", () => {
  /** The prompt's text, special tokens included. */
  const promptOf = async (chat: TestChat, params: object) => {
    const answer = await chat.ask({ max_tokens: 1, return_token_ids: true, ...params });
    return chat.tokenizer.decode(answer.prompt_token_ids!, { skipSpecialTokens: false });
  };
  const turns = [
    { role: "user", content: "Count" },
    { role: "assistant", content: "One, two," },
  ];

  test("is what the template makes of messages, tools, documents and its own variables", async () => {
    const template =
      "{{ bos_token }}{{ messages | length }} {{ tools[0].function.name }} {{ documents[0].title }} {{ mood }} " +
      "{{ reasoning_effort }} {{ add_generation_prompt }}";
    const chat = await openChat({ template });
    const tool = { type: "function", function: { name: "add", parameters: {} } };
    const text = await promptOf(chat, {
      tools: [tool],
      documents: [{ title: "Book", text: "..." }],
      chat_template_kwargs: { mood: "calm" },
      reasoning_effort: "low",
    });
    expect(text).toBe("1 add Book calm low True");
  });

  test("a request's own template replaces the model's, and is needed where there is none", async () => {
    const chat = await openChat({ template: null });
    expect((await refusal(chat.ask())).param).toBe("chat_template");
    for (const none of [{ chat_template: "" }, { chat_template_kwargs: { chat_template: "" } }]) {
      expect((await refusal(chat.ask(none))).param).toBe("chat_template");
      const { prompt_token_ids } = await (await openChat()).ask({ ...none, return_token_ids: true });
      expect(prompt_token_ids).toEqual((await (await openChat()).ask({ return_token_ids: true })).prompt_token_ids);
    }
    expect(await promptOf(chat, { chat_template: "<{{ messages[0].content }}>" })).toBe("<Hi>");
    expect(await promptOf(chat, { chat_template_kwargs: { chat_template: "({{ messages[0].content }})" } })).toBe(
      "(Hi)",
    );
    expect((await refusal(chat.ask({ chat_template: "{% if %}" }))).param).toBe("chat_template");
    expect((await refusal(chat.ask({ chat_template: "{{ range(10**12) | list }}" }))).param).toBe("chat_template");
    expect((await refusal(chat.ask({ chat_template: "{# nothing #}" }))).param).toBe("messages");
  });

  test("a template's own refusal is passed on", async () => {
    const chat = await openChat({ template: "{{ raise_exception('roles must alternate') }}" });
    const error = await refusal(chat.ask());
    expect(error.issues[0]).toMatchObject({ loc: ["body", "messages"], msg: "roles must alternate" });
  });

  test("messages that hold more than text are refused where they stand", async () => {
    const { ask } = await openChat();
    const content = [
      { type: "text", text: "see" },
      { type: "image_url", image_url: { url: "x" } },
    ];
    const error = await refusal(ask({ messages: [{ role: "user", content }] }));
    expect(error.issues[0]!.loc.slice(0, 5)).toEqual(["body", "messages", "0", "content", "1"]);
  });

  test("without a generation prompt the reply has the role of the last message", async () => {
    const chat = await says("more");
    const messages = [{ role: "user", content: "Count" }];
    expect(await promptOf(chat, { messages, add_generation_prompt: false })).toBe(
      "<|im_start|>user\nCount<|im_end|>\n",
    );
    const answer = await chat.ask({ messages, add_generation_prompt: false });
    expect(answer.choices[0]!.message.role).toBe("user");
    const all = await chat.chunks({ messages, add_generation_prompt: false });
    expect(all[0]!.choices[0]!.delta.role).toBe("user");
  });

  test("the last message can be continued", async () => {
    const chat = await says(" three");
    const expected = "<|im_start|>user\nCount<|im_end|>\n<|im_start|>assistant\nOne, two,";
    expect(await promptOf(chat, { messages: turns, continue_final_message: true })).toBe(expected);
    const both = { messages: turns, continue_final_message: true, add_generation_prompt: false };
    expect(await promptOf(chat, both)).toBe(expected);
    expect((await chat.ask(both)).choices[0]!.message).toMatchObject({ role: "assistant", content: " three" });
  });

  test("echo puts the last message before the reply when both have one role", async () => {
    const chat = await says(" three");
    const params = { messages: turns, continue_final_message: true, echo: true };
    const answer = await chat.ask(params);
    const plain = await chat.ask({ ...params, echo: false });
    expect(answer.choices[0]!.message.content).toBe("One, two, three");
    expect(answer.usage.completion_tokens).toBe(plain.usage.completion_tokens);
    expect(answer.prompt_logprobs).toHaveLength(answer.usage.prompt_tokens);
    expect(answer.usage.prompt_tokens_details.cached_tokens).toBe(0);
    expect(plain.prompt_logprobs).toBeNull();
    const all = await chat.chunks(params);
    expect(all[1]!.choices[0]!.delta).toEqual({ content: "One, two," });
    expect(contentOf(all)).toBe("One, two, three");
    expect((await chat.ask({ echo: true })).choices[0]!.message.content).toBe(" three");
  });

  test("add_special_tokens leaves it to the tokenizer to add some", async () => {
    const chat = await openChat();
    const plain = await promptOf(chat, {});
    // This tokenizer adds none.
    expect(await promptOf(chat, { add_special_tokens: true })).toBe(plain);
  });
});
