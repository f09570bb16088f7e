// The Responses API: what is answered, whole and as events.

import * as z from "zod";
import { field, named, typed } from "./fields.js";
import { page } from "./pages.js";
import { reasoningEffort, reasoningSummary, verbosity } from "./responseRequests.js";

const status = named(
  "ResponseStatus",
  z.enum(["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]),
  "What has become of a response.",
);

const itemStatus = z.enum(["in_progress", "completed", "incomplete"]);

const logprobFields = {
  token: field(z.string(), "The token's text."),
  logprob: field(z.number(), "Natural logarithm of the raw probability, at least -9999."),
  bytes: field(z.array(z.int()), "UTF-8 of the token's own text."),
};

const logprob = named(
  "ResponseLogprob",
  z.object({
    ...logprobFields,
    top_logprobs: field(z.array(z.object(logprobFields)), "The likeliest tokens, falling."),
  }),
  "A drawn token of a text.",
);

const logprobs = z.array(logprob);

const outputText = named(
  "ResponseOutputText",
  z.object({
    type: z.literal("output_text"),
    text: field(z.string(), "The text."),
    annotations: field(typed(z.array(z.never()), "never[]"), "Always empty."),
    logprobs: field(logprobs, "One entry per token, where they were asked for."),
  }),
  "A text that the model wrote.",
);

const reasoningText = named(
  "ResponseReasoningText",
  z.object({ type: z.literal("reasoning_text"), text: field(z.string(), "The thoughts.") }),
  "What the model thought.",
);

const summaryText = named(
  "ResponseSummaryText",
  z.object({ type: z.literal("summary_text"), text: field(z.string(), "The thoughts.") }),
  "What the model thought, where it was asked for as a summary.",
);

const id = field(z.string(), "Its id.");

const outputMessage = named(
  "ResponseOutputMessage",
  z.object({
    type: z.literal("message"),
    id,
    role: z.literal("assistant"),
    status: field(itemStatus, "Whether it is whole."),
    content: field(z.array(outputText), "One text."),
  }),
  "What the model says.",
);

const functionCall = named(
  "ResponseFunctionCall",
  z.object({
    type: z.literal("function_call"),
    id,
    call_id: field(z.string(), "What the call's output repeats."),
    name: field(z.string(), "The function's name."),
    namespace: field(z.string().optional(), "The namespace that the function is of, if it is of one."),
    arguments: field(z.string(), "JSON, as the model wrote it."),
    status: field(itemStatus, "Whether it is whole."),
  }),
  "A function that the model wants called.",
);

const reasoningItem = named(
  "ResponseReasoningItem",
  z.object({
    type: z.literal("reasoning"),
    id,
    summary: field(z.array(summaryText), "The thoughts, where they were asked for as a summary."),
    content: field(z.array(reasoningText).optional(), "The thoughts, where they were not."),
    encrypted_content: field(z.string().nullish(), "The thoughts encoded, where that was asked for."),
    status: field(itemStatus, "Whether it is whole."),
  }),
  "What the model thought before it answered.",
);

const outputItem = named(
  "ResponseOutputItem",
  z.union([outputMessage, functionCall, reasoningItem]),
  "An item of a response.",
);

const usage = named(
  "ResponseUsage",
  z.object({
    input_tokens: field(z.int(), "Of the prompt."),
    input_tokens_details: field(
      z.object({
        cached_tokens: field(z.int(), "Of the prompt's: those that were not computed again."),
        cache_write_tokens: field(z.int(), "Always 0: what is cached is not counted apart."),
      }),
      "More of the prompt.",
    ),
    output_tokens: field(z.int(), "Drawn."),
    output_tokens_details: field(
      z.object({ reasoning_tokens: field(z.int(), "Of these, those of thoughts.") }),
      "More of what was drawn.",
    ),
    total_tokens: field(z.int(), "Both."),
  }),
  "How many tokens a response took.",
);

const functionTool = named(
  "ResponseFunctionTool",
  z.object({
    type: z.literal("function"),
    name: field(z.string(), "The function's name."),
    description: field(z.string().nullable(), "What it does."),
    parameters: field(z.record(z.string(), z.unknown()).nullable(), "JSON Schema of its arguments."),
    strict: field(z.boolean().nullable(), "As asked."),
  }),
  "A function that the model may call.",
);

const namespaceTool = named(
  "ResponseNamespaceTool",
  z.object({
    type: z.literal("namespace"),
    name: field(z.string(), "The name that its functions have in common."),
    description: field(z.string().nullable(), "What they are for."),
    tools: field(z.array(functionTool), "Its functions."),
  }),
  "Functions under a common name.",
);

export const response = named(
  "ModelResponse",
  z.object({
    id: field(z.string(), "`resp_` and random characters."),
    object: z.literal("response"),
    created_at: field(z.int(), "Unix time, in seconds."),
    completed_at: field(z.int().nullable(), "When it was completed; null: it was not."),
    status: field(status, "What has become of it."),
    error: field(
      z
        .object({ code: field(z.literal("server_error"), "Which kind."), message: field(z.string(), "What it was.") })
        .nullable(),
      "Why it failed.",
    ),
    incomplete_details: field(
      z.object({ reason: field(z.enum(["max_output_tokens", "repetition"]), "What ended it.") }).nullable(),
      "Why it is incomplete.",
    ),
    model: field(z.string(), "The model that answered; of a trained one with its step."),
    output: field(z.array(outputItem), "What the model thought, said and called, in this order."),
    usage: field(usage.nullable(), "How many tokens it took, once it has ended."),
    instructions: field(z.string().nullable(), "As asked."),
    previous_response_id: field(z.string().nullable(), "As asked."),
    metadata: field(z.record(z.string(), z.string()), "As asked."),
    store: field(z.boolean(), "As asked."),
    background: field(z.boolean(), "As asked."),
    temperature: field(z.number().nullable(), "As asked; null: the model's own."),
    top_p: field(z.number().nullable(), "As asked; null: the model's own."),
    presence_penalty: field(z.number(), "As asked."),
    frequency_penalty: field(z.number(), "As asked."),
    max_output_tokens: field(z.int().nullable(), "As asked."),
    max_tool_calls: field(z.int().nullable(), "As asked."),
    parallel_tool_calls: field(z.boolean(), "As asked."),
    tool_choice: field(typed(z.unknown(), "string | { [choiceField: string]: unknown }"), "As asked."),
    tools: field(z.array(z.union([functionTool, namespaceTool])), "As asked, without what is left out."),
    text: field(
      z.object({
        format: field(typed(z.unknown(), "{ [formatField: string]: unknown }"), "As asked."),
        verbosity: field(verbosity.optional(), "As asked."),
      }),
      "As asked.",
    ),
    reasoning: field(
      z.object({
        effort: field(reasoningEffort.nullable(), "As asked."),
        summary: field(reasoningSummary.nullable(), "As asked."),
      }),
      "As asked.",
    ),
    top_logprobs: field(z.int(), "As asked."),
    truncation: field(z.enum(["auto", "disabled"]), "As asked."),
    user: field(z.string().optional(), "As asked."),
    safety_identifier: field(z.string().nullable(), "As asked."),
    prompt_cache_key: field(z.string().nullable(), "As asked."),
    service_tier: field(z.literal("default"), 'Always "default".'),
    access_programs: field(z.null(), "Always null."),
  }),
  "What the model answered, and what it was asked.",
);

export const responseDeleted = named(
  "ResponseDeleted",
  z.object({ id, object: z.literal("response"), deleted: field(z.literal(true), "Always true.") }),
  "A response that was deleted.",
);

const inputText = z.object({ type: z.literal("input_text"), text: field(z.string(), "The text.") });

const inputMessage = named(
  "ResponseInputMessageItem",
  z.object({
    type: z.literal("message"),
    id,
    role: field(z.string(), "Who says it."),
    status: field(itemStatus, "Always completed."),
    content: field(z.array(z.union([inputText, outputText])), "Its texts."),
  }),
  "A message of the input.",
);

const functionCallOutput = named(
  "ResponseFunctionCallOutput",
  z.object({
    type: z.literal("function_call_output"),
    id,
    call_id: field(z.string(), "The call that it answers."),
    output: field(z.union([z.string(), z.array(inputText)]), "What the function gave."),
    status: field(itemStatus, "Always completed."),
  }),
  "What came of a call.",
);

const item = named(
  "ResponseItem",
  z.union([inputMessage, functionCall, functionCallOutput, reasoningItem]),
  "An item of a response's input.",
);

export const responseItemList = named("ResponseItemList", page(item), "A page of a response's input items.");

// ---- events

const sequence_number = field(z.int(), "Its place among the events, from 0.");
const output_index = field(z.int(), "Place of the item in the output.");
const item_id = field(z.string(), "The item's id.");
const content_index = field(z.int(), "Place of the part in the item's content.");
const summary_index = field(z.int(), "Place of the part in the summary.");

const event = <const T extends string, S extends z.ZodRawShape>(type: T, shape: S) =>
  z.object({ type: z.literal(type), sequence_number, ...shape });

const whole = { response: field(response, "The response as it is now.") };
const ofItem = { output_index, item: field(outputItem, "The item as it is now.") };
const place = { item_id, output_index };
const delta = field(z.string(), "What comes next.");

/** How a response comes, as it is made. */
export const responseStreamEvent = named(
  "ResponseStreamEvent",
  z.union([
    event("response.created", whole),
    event("response.queued", whole),
    event("response.in_progress", whole),
    event("response.completed", whole),
    event("response.incomplete", whole),
    event("response.failed", whole),
    event("response.output_item.added", ofItem),
    event("response.output_item.done", ofItem),
    event("response.content_part.added", {
      ...place,
      content_index,
      part: field(z.union([outputText, reasoningText]), "The part, empty."),
    }),
    event("response.content_part.done", {
      ...place,
      content_index,
      part: field(z.union([outputText, reasoningText]), "The part."),
    }),
    event("response.output_text.delta", {
      ...place,
      content_index,
      delta,
      logprobs: field(logprobs, "Of the delta's tokens, where they were asked for."),
    }),
    event("response.output_text.done", {
      ...place,
      content_index,
      text: field(z.string(), "All of it."),
      logprobs: field(logprobs, "Of all its tokens, where they were asked for."),
    }),
    event("response.reasoning_text.delta", { ...place, content_index, delta }),
    event("response.reasoning_text.done", { ...place, content_index, text: field(z.string(), "All of it.") }),
    event("response.reasoning_summary_part.added", {
      ...place,
      summary_index,
      part: field(summaryText, "The part, empty."),
    }),
    event("response.reasoning_summary_part.done", { ...place, summary_index, part: field(summaryText, "The part.") }),
    event("response.reasoning_summary_text.delta", { ...place, summary_index, delta }),
    event("response.reasoning_summary_text.done", {
      ...place,
      summary_index,
      text: field(z.string(), "All of it."),
    }),
    event("response.function_call_arguments.delta", { ...place, delta }),
    event("response.function_call_arguments.done", {
      ...place,
      name: field(z.string(), "The function's name."),
      arguments: field(z.string(), "All of it."),
    }),
    event("error", {
      code: field(z.string().nullable(), "Which kind."),
      message: field(z.string(), "What it was."),
      param: field(z.string().nullable(), "The field at fault."),
    }),
  ]),
  "A part of a response as it is made.",
);
