// The Responses API: what is asked for. A response is a chat request with another face.

import * as z from "zod";
import { chatFields, pickedSampling } from "./chat.js";
import { byDefault, field, named, open, optionalInType, shared, streamable, streamKinds, typed } from "./fields.js";
import { anyValue, list, looseObject, map } from "./limited.js";
import { offeredFunctions } from "./offeredFunctions.js";
import { flag, freeObject, MAX_MESSAGES, MAX_PARTS, MAX_TOOLS, optional } from "./parts.js";

/** Pairs of `metadata`, and characters of a key and a value. */
const MAX_METADATA = { pairs: 16, key: 64, value: 512 };

const metadata = map(z.string().max(MAX_METADATA.value), MAX_METADATA.pairs).superRefine((pairs, ctx) => {
  for (const key of Object.keys(pairs)) {
    if (key.length > MAX_METADATA.key) {
      ctx.addIssue({ code: "custom", path: [key], message: `keys have ${MAX_METADATA.key} characters at most` });
    }
  }
});

const inputItem = named(
  "ResponseInputItemParam",
  open(
    looseObject({
      type: field(
        z.string().nullish(),
        '"message" (or absent), "function_call", "function_call_output", "reasoning" or "item_reference"; others are refused.',
      ),
      id: field(z.string().nullish(), "Of an item that a response has had, kept; of an item_reference, which one."),
      role: field(z.string().nullish(), 'Of a message: "user", "assistant", "system" or "developer".'),
      content: field(
        z.union([z.string(), typed(list(anyValue, MAX_PARTS), "readonly object[]")]).nullish(),
        'Of a message: its text, or parts of the types "input_text" and "output_text". Of reasoning: parts of the type "reasoning_text".',
      ),
      call_id: field(z.string().nullish(), "Of a call and of its output: what ties them together."),
      name: field(z.string().nullish(), "Of a call: the function's name."),
      namespace: field(z.string().nullish(), "Of a call: the namespace that the function is of, if it is of one."),
      arguments: field(z.string().nullish(), "Of a call: JSON."),
      output: field(
        z.union([z.string(), typed(list(anyValue, MAX_PARTS), "readonly object[]")]).nullish(),
        "Of a function_call_output: what the function gave, as text or as parts of the type input_text.",
      ),
      summary: field(
        typed(list(anyValue, MAX_PARTS), "readonly object[]").nullish(),
        'Of reasoning: parts of the type "summary_text", which count where it has no content.',
      ),
      encrypted_content: field(z.string().nullish(), "Of reasoning: what `include` asked for."),
    }),
    "itemField",
  ),
  "One item of what a response answers: a message, a call that the model made, what came of it, or what it thought.",
);

const functionFields = {
  name: field(optionalInType(z.string().min(1).nullish()), "The function's name; of a namespace its own."),
  description: field(z.string().nullish(), "What it does, for the model."),
  parameters: field(freeObject.nullish(), "JSON Schema of its arguments. Default: none, or any."),
  strict: field(
    z.boolean().nullish(),
    "Whether a call that is forced follows the schema exactly, so that objects are closed.",
  ),
};

const tool = named(
  "ResponseToolParam",
  open(
    looseObject({
      type: field(
        z.string(),
        '"function" or "namespace"; "web_search" is left out beside these. All others (file_search, mcp, custom, ...) are refused.',
      ),
      ...functionFields,
      tools: field(
        list(looseObject({ type: field(z.string(), '"function".'), ...functionFields }), MAX_TOOLS).nullish(),
        "Of a namespace: its functions, which the model sees as `namespace__name`.",
      ),
    }),
    "toolField",
  ),
  "A function that the model may call, or several under a common name.",
);

const toolChoice = typed(
  z.union([
    z.enum(["none", "auto", "required"]),
    looseObject({ type: z.literal("function"), name: z.string().min(1) }),
    looseObject({
      type: z.literal("allowed_tools"),
      mode: z.enum(["auto", "required"]),
      tools: list(looseObject({ type: z.literal("function"), name: z.string().min(1) }), MAX_TOOLS).min(1),
    }),
  ]),
  "string | { type: string; [choiceField: string]: unknown }",
);

const textFormat = looseObject({
  type: field(
    typed(z.enum(["text", "json_object", "json_schema"]), "string"),
    '"text", "json_object" or "json_schema".',
  ),
  name: field(z.string().nullish(), "Without effect."),
  description: field(z.string().nullish(), "Without effect."),
  schema: field(
    typed(z.union([freeObject, z.boolean()]).nullish(), "{ [key: string]: unknown } | null"),
    'With the type "json_schema": the JSON Schema. A keyword that cannot be enforced is a ValidationError.',
  ),
  strict: field(z.boolean().nullish(), "Whether objects have no properties but those that the schema names.", {
    default: false,
  }),
}).superRefine((format, ctx) => {
  if (format.type === "json_schema" && format.schema == null) {
    ctx.addIssue({ code: "custom", path: ["schema"], message: 'is required when the type is "json_schema"' });
  }
});

export const reasoningEffort = shared(z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]));
export const reasoningSummary = shared(z.enum(["auto", "concise", "detailed"]));
export const verbosity = shared(z.enum(["low", "medium", "high"]));

const INCLUDABLE = [
  "message.output_text.logprobs",
  "reasoning.encrypted_content",
  "file_search_call.results",
  "web_search_call.results",
  "web_search_call.action.sources",
  "message.input_image.image_url",
  "computer_call_output.output.image_url",
  "code_interpreter_call.outputs",
] as const;

/** What a response has of a chat completion, with the same meaning. */
const sampling = chatFields.pick({
  model: true,
  ...pickedSampling,
  logit_bias: true,
  seed: true,
  stop: true,
  stop_token_ids: true,
  include_stop_str_in_output: true,
  ignore_eos: true,
  min_tokens: true,
  skip_special_tokens: true,
  allowed_token_ids: true,
  bad_words: true,
  thinking_token_budget: true,
  structured_outputs: true,
  chat_template: true,
  chat_template_kwargs: true,
  priority: true,
  request_id: true,
  cache_salt: true,
  repetition_detection: true,
  stream_interval: true,
  user: true,
});

/** What nothing here has: the field is refused where it is set. */
const absent = (what: string) =>
  field(typed(z.unknown().optional(), "null"), `Not available here: ${what}. Has to be null or absent.`);

const baseFields = named(
  "ResponseCreateParamsBase",
  looseObject({
    ...sampling.shape,
    input: field(
      z.union([z.string(), list(inputItem, MAX_MESSAGES)]).nullish(),
      "What is answered: a text of the user, or items. Default: nothing beyond `instructions` and the previous response.",
    ),
    instructions: field(
      optional(z.string()),
      "A system message before everything else. Those of a previous response do not count any more.",
    ),
    previous_response_id: field(
      optional(z.string()),
      "A stored response that this one goes on from: its input and output stand before `input`, and those before them. A NotFoundError when one of them is gone.",
    ),
    store: field(
      flag(true),
      "Whether the response can be retrieved and gone on from. Kept for 30 days, the latest 10,000 of an entity.",
    ),
    background: field(
      flag(false),
      "Whether it is answered at once, before it is made: retrieve it then, or cancel it. Needs `store`. 1,000 at a time at most.",
    ),
    stream_options: field(
      optional(looseObject({ include_obfuscation: field(z.boolean().nullish(), "Without effect.") })),
      "Without effect.",
    ),
    max_output_tokens: field(
      optional(z.int().min(1)),
      "Tokens at most, thoughts included; lowered to the room that the input leaves in the context. Default: the model folder's, else all of it.",
    ),
    tools: field(optional(list(tool, MAX_TOOLS)), "Functions that the model may call. Default: none."),
    tool_choice: field(
      optional(toolChoice),
      '"none": no calls. "auto": as the model likes, instead of a text in the form that `text` asks for too. "required": at least one. Or (`type` "function", `name`) a function of `tools`, which is called; or (`type` "allowed_tools", `mode`, `tools`) some of them. Default: "auto" where the model\'s calls can be read.',
    ),
    parallel_tool_calls: field(flag(true), "false: only the first call is kept."),
    max_tool_calls: field(
      optional(z.int().min(1)),
      "Of tools that run in the service, of which there are none: without effect.",
    ),
    text: field(
      optional(
        looseObject({
          format: field(textFormat.nullish(), "The form that the text has. Default: any text."),
          verbosity: field(verbosity.nullish(), "Without effect."),
        }),
      ),
      "How the text is to be.",
    ),
    reasoning: field(
      optional(
        looseObject({
          effort: field(
            reasoningEffort.nullish(),
            "What it does is up to the chat template. Default: what the template takes it for.",
          ),
          summary: field(
            reasoningSummary.nullish(),
            "Thoughts come as the `summary` of a reasoning item instead of its `content`, word for word: nothing is left out.",
          ),
          generate_summary: field(reasoningSummary.nullish(), "Another spelling of `summary`.", {
            deprecated: true,
          }),
        }),
      ),
      "How the model thinks before it answers.",
    ),
    include: field(
      optional(list(z.enum(INCLUDABLE), 64)),
      '"message.output_text.logprobs": the logprobs of the text\'s tokens. "reasoning.encrypted_content": thoughts also in a form that clients hand back without reading it (they are encoded, not secret). The others are of items that there are none of.',
    ),
    top_logprobs: field(
      byDefault(z.int().min(0).max(20), 0),
      "How many of the likeliest tokens every entry of the logprobs lists; above 0 they are included.",
    ),
    truncation: field(
      byDefault(z.enum(["auto", "disabled"]), "disabled"),
      '"disabled": input that does not fit the context is a ValidationError. "auto": the earliest turns are left out until it fits beside the reply, for which `max_output_tokens` are kept free, else a quarter of the context, and half of it at most.',
    ),
    metadata: field(
      optional(metadata),
      "Up to 16 texts by name, kept with the response: keys of 64 characters at most, values of 512.",
    ),
    safety_identifier: field(optional(z.string()), "Without effect."),
    prompt_cache_key: field(optional(z.string()), "Without effect."),
    prompt_cache_retention: field(optional(z.string()), "Without effect."),
    service_tier: field(optional(z.string()), "Without effect."),
    prompt: absent("templates of prompts"),
    conversation: absent("conversations; `previous_response_id` is"),
    context_management: absent("compaction; `truncation` is"),
  }),
  "The settings of a response. Absent and null both mean the default.",
);

const fields = streamable(baseFields, {
  id: "ResponseCreateParams",
  what: "A response to create",
  sentence: "Whether the response comes as events, as it is made.",
});

/** What the two kinds of calls take. */
export const responseCreateKinds = streamKinds(baseFields, {
  id: "ResponseCreateParams",
  what: "A response to create",
  whole: "The response comes in one piece.",
  parts: "The response comes as events, as it is made.",
  streamed: "as events",
});

type Tool = z.output<typeof tool>;

/** Of every name and date: what agents offer beside their functions without being asked, and work without. */
const WEB_SEARCH = /^web_search/;

function* toolFaults(tools: readonly Tool[]): Generator<[path: string[], message: string]> {
  const isAlone = !tools.some(({ type }) => type === "function" || type === "namespace");
  for (const [i, { type, name, tools: within }] of tools.entries()) {
    const path = ["tools", String(i)];
    if (type === "function" || type === "namespace") {
      if (name == null) yield [[...path, "name"], "is required"];
      for (const [j, one] of (type === "namespace" ? (within ?? []) : []).entries()) {
        const place = [...path, "tools", String(j)];
        if (one.type !== "function") yield [[...place, "type"], `"${one.type}" is not available here`];
        else if (one.name == null) yield [[...place, "name"], "is required"];
      }
    } else if (isAlone || !WEB_SEARCH.test(type)) {
      yield [[...path, "type"], `"${type}" is not available here: tools are functions of the application`];
    }
  }
}

function* contradictions(request: z.output<typeof fields>): Generator<[path: string[], message: string]> {
  for (const name of ["prompt", "conversation", "context_management"] as const) {
    if (request[name] != null) yield [[name], "is not available here"];
  }
  if (request.background && !request.store) yield [["background"], "needs store: only what is kept can be retrieved"];
  const tools = request.tools ?? [];
  yield* toolFaults(tools);
  const choice = request.tool_choice;
  if (typeof choice !== "object") return;
  const named = choice.type === "function" ? [choice] : choice.tools;
  const offered = offeredFunctions(tools);
  for (const { name } of named) {
    if (!offered.some((one) => one.name === name)) yield [["tool_choice"], `no function of tools is named "${name}"`];
  }
}

export const responseCreate = fields.superRefine((request, ctx) => {
  for (const [path, message] of contradictions(request)) ctx.addIssue({ code: "custom", path, message });
});

/** A checked request, nulls gone and plain defaults filled in. */
export type ResponseRequest = z.output<typeof responseCreate>;

/** Of an address: texts stand for what they say. */
const told = z.union([z.boolean(), z.enum(["true", "false"]).transform((value) => value === "true")]);

export const responseQuery = named(
  "ResponseQuery",
  z.object({
    stream: field(
      typed(told.nullish(), "boolean | null"),
      "Whether it comes as the events it was made of; of one that has ended, as few as tell it.",
      { default: false },
    ),
    starting_after: field(
      z.int().min(0).nullish(),
      "Sequence number of the last event already seen; of a response that has ended, only its last event is told then.",
    ),
  }),
  "How a response is retrieved.",
);

/** What the two kinds of calls take. */
export const responseQueryKinds = streamKinds(responseQuery, {
  id: "ResponseQuery",
  what: "How a response is retrieved",
  whole: "It comes in one piece.",
  parts: "It comes as the events it was made of.",
  streamed: "as events",
});

export const responseItemQuery = named(
  "ResponseItemQuery",
  z.object({
    after: field(z.string().nullish(), "Id of the last item already seen; the page begins after it."),
    limit: field(byDefault(z.int().min(1).max(100), 20), "Items of the page at most."),
    order: field(byDefault(z.enum(["asc", "desc"]), "desc"), "By their place in the input."),
  }),
  "Which of a response's input items are wanted, and in which order.",
);
