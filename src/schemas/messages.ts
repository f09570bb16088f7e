// Anthropic's messages: what is asked for and what is answered. A message is a chat request with another face.

import * as z from "zod";
import { chatFields } from "./chat.js";
import { field, named } from "./fields.js";
import { list, looseObject } from "./limited.js";
import { flag, freeObject, MAX_MESSAGES, MAX_PARTS, MAX_TOOLS, optional } from "./parts.js";

const text = looseObject({ type: z.literal("text"), text: field(z.string(), "What is said.") });

const content = <B extends z.ZodType>(block: B) => z.union([z.string(), list(block, MAX_PARTS)]);

const inputBlock = named(
  "MessageBlockParam",
  z.discriminatedUnion("type", [
    text,
    looseObject({ type: z.literal("thinking"), thinking: field(z.string(), "What the assistant thought.") }),
    looseObject({ type: z.literal("redacted_thinking") }),
    looseObject({
      type: z.literal("tool_use"),
      id: field(z.string(), "What its result repeats."),
      name: field(z.string().min(1), "The tool that the assistant called."),
      input: field(freeObject, "Its arguments."),
    }),
    looseObject({
      type: z.literal("tool_result"),
      tool_use_id: field(z.string(), "The call that it answers."),
      content: field(content(text).nullish(), "What the tool gave."),
      is_error: field(z.boolean().nullish(), "Without effect."),
    }),
  ]),
  "A piece of a message: text, a thought (redacted ones are left out), a call, or what came of one.",
);

const message = named(
  "MessageParam",
  looseObject({
    role: field(z.enum(["user", "assistant", "system"]), "Who says it."),
    content: field(content(inputBlock), "A text, or blocks."),
  }),
  "What was said.",
);

const unavailable = (type: unknown) =>
  typeof type === "string" ? `"${type}" is not available here: tools are those of the application` : undefined;

const tool = named(
  "MessageToolParam",
  looseObject({
    type: field(
      z.literal("custom", { error: ({ input }) => unavailable(input) }).nullish(),
      "All others than tools of the application (web_search_20250305, bash_20250124, ...) are refused.",
    ),
    name: field(z.string().min(1), "The tool's name."),
    description: field(z.string().nullish(), "What it does, for the model."),
    input_schema: field(freeObject, 'JSON Schema of its arguments; of the type "object" where it says none.'),
    strict: field(z.boolean().nullish(), "Whether a call that is forced follows the schema exactly."),
  }),
  "A tool that the model may call.",
);

const disable_parallel_tool_use = z.boolean().nullish();

const toolChoice = z.discriminatedUnion("type", [
  looseObject({ type: z.enum(["auto", "any", "none"]), disable_parallel_tool_use }),
  looseObject({ type: z.literal("tool"), name: z.string().min(1), disable_parallel_tool_use }),
]);

const thinking = z.discriminatedUnion("type", [
  looseObject({ type: z.literal("enabled"), budget_tokens: z.int().min(1) }),
  looseObject({ type: z.literal("disabled") }),
  looseObject({ type: z.literal("adaptive") }),
]);

const promptFields = {
  model: field(z.string().min(1), "A base model, or a trained model's name."),
  messages: field(
    list(message, MAX_MESSAGES).min(1),
    "The conversation, without its system prompt. A reply goes on with the text of an assistant that ends it.",
  ),
  system: field(optional(content(text)), "The system prompt."),
  tools: field(optional(list(tool, MAX_TOOLS)), "Tools that the model may call."),
  tool_choice: field(
    optional(toolChoice),
    'Whether it calls them: "auto" by itself, "any" one at least, "tool" the one of `name`, "none" not. Default: "auto" with tools, where calls are read from replies.',
  ),
  thinking: field(
    optional(thinking),
    'Whether it thinks: "enabled" for `budget_tokens` at most, "adaptive" as it likes, or "disabled". Default: as the template has it.',
  ),
  output_config: field(
    optional(
      looseObject({
        effort: field(z.enum(["low", "medium", "high", "xhigh", "max"]).nullish(), "How much it thinks."),
        format: field(
          looseObject({ type: z.literal("json_schema"), schema: freeObject }).nullish(),
          "The JSON Schema that the reply follows, unless it calls tools.",
        ),
      }),
    ),
    "How it answers.",
  ),
  chat_template_kwargs: chatFields.shape.chat_template_kwargs,
};

export const messageCreate = named(
  "MessageCreateParams",
  z.object({
    ...promptFields,
    max_tokens: field(z.int().min(1), "Tokens of the reply at most; lowered to the room that the prompt leaves."),
    stop_sequences: field(optional(list(z.string().min(1), 1024)), "Texts that end the reply."),
    stream: field(flag(false), "Whether the reply comes in events, as it is written."),
    temperature: chatFields.shape.temperature,
    top_p: chatFields.shape.top_p,
    top_k: chatFields.shape.top_k,
    cache_salt: chatFields.shape.cache_salt,
    metadata: field(optional(freeObject), "Without effect."),
  }),
  "A message to create.",
);

export type MessageRequest = z.output<typeof messageCreate>;

export const messageCount = named(
  "MessageCountTokensParams",
  z.object(promptFields),
  "A prompt whose tokens are counted.",
);

export type MessageCountRequest = z.output<typeof messageCount>;

export const messageCounted = named(
  "MessageTokensCount",
  z.object({ input_tokens: field(z.int(), "Of the prompt.") }),
  "How many tokens a prompt has.",
);

const usage = named(
  "MessageUsage",
  z.object({
    input_tokens: field(z.int(), "Of the prompt, those that were computed."),
    cache_read_input_tokens: field(z.int(), "Of the prompt, those that were not computed again."),
    output_tokens: field(z.int(), "Of the reply."),
  }),
  "How many tokens a message took.",
);

const block = named(
  "MessageBlock",
  z.union([
    z.object({ type: z.literal("text"), text: field(z.string(), "What the model says.") }),
    z.object({
      type: z.literal("thinking"),
      thinking: field(z.string(), "What the model thought."),
      signature: field(z.string(), "Empty: thoughts are taken back unsigned."),
    }),
    z.object({
      type: z.literal("tool_use"),
      id: field(z.string(), "What its result is to repeat."),
      name: field(z.string(), "The tool to call."),
      input: field(z.record(z.string(), z.unknown()), "Its arguments."),
    }),
  ]),
  "A piece of a reply.",
);

const stopReason = z.enum(["end_turn", "max_tokens", "stop_sequence", "tool_use"]).nullable();

export const messageReply = named(
  "MessageReply",
  z.object({
    id: field(z.string(), "Its id."),
    type: z.literal("message"),
    role: z.literal("assistant"),
    model: field(z.string(), "The model that answered; of a trained one with its step."),
    content: field(
      z.array(block),
      "What it thought, said and called, in this order; one empty text where it did nothing.",
    ),
    stop_reason: field(stopReason, "Why it ended; null: for another reason, or not yet."),
    stop_sequence: field(z.string().nullable(), "The text that ended it."),
    usage: field(usage, "How many tokens it took."),
  }),
  "What the model answers.",
);

export type MessageReply = z.output<typeof messageReply>;
export type MessageBlock = z.output<typeof block>;

const index = field(z.int(), "The block's place in the content.");

export const messageEvent = named(
  "MessageStreamEvent",
  z.union([
    z.object({ type: z.literal("message_start"), message: messageReply }),
    z.object({ type: z.literal("content_block_start"), index, content_block: block }),
    z.object({
      type: z.literal("content_block_delta"),
      index,
      delta: z.union([
        z.object({ type: z.literal("text_delta"), text: z.string() }),
        z.object({ type: z.literal("thinking_delta"), thinking: z.string() }),
        z.object({ type: z.literal("input_json_delta"), partial_json: z.string() }),
      ]),
    }),
    z.object({ type: z.literal("content_block_stop"), index }),
    z.object({
      type: z.literal("message_delta"),
      delta: z.object({ stop_reason: stopReason, stop_sequence: z.string().nullable() }),
      usage,
    }),
    z.object({ type: z.literal("message_stop") }),
  ]),
  "What comes next of a message.",
);

export type MessageEvent = z.output<typeof messageEvent>;
