// Made of src/schemas/responseRequests.ts and responses.ts by `npm run generate`: change those.

import type { StructuredOutputs } from "./chat.js";

/** One item of what a response answers: a message, a call that the model made, what came of it, or what it thought. */
export interface ResponseInputItemParam {
  /**
   * "message" (or absent), "function_call", "function_call_output", "reasoning" or "item_reference"; others are
   * refused.
   */
  type?: string | null;
  /** Of an item that a response has had, kept; of an item_reference, which one. */
  id?: string | null;
  /** Of a message: "user", "assistant", "system" or "developer". */
  role?: string | null;
  /**
   * Of a message: its text, or parts of the types "input_text" and "output_text". Of reasoning: parts of the type
   * "reasoning_text".
   */
  content?: string | readonly object[] | null;
  /** Of a call and of its output: what ties them together. */
  call_id?: string | null;
  /** Of a call: the function's name. */
  name?: string | null;
  /** Of a call: the namespace that the function is of, if it is of one. */
  namespace?: string | null;
  /** Of a call: JSON. */
  arguments?: string | null;
  /** Of a function_call_output: what the function gave, as text or as parts of the type input_text. */
  output?: string | readonly object[] | null;
  /** Of reasoning: parts of the type "summary_text", which count where it has no content. At most 16384 entries. */
  summary?: readonly object[] | null;
  /** Of reasoning: what `include` asked for. */
  encrypted_content?: string | null;
  /** Further fields. */
  [itemField: string]: unknown;
}

/** A function that the model may call, or several under a common name. */
export interface ResponseToolParam {
  /**
   * "function" or "namespace"; "web_search" is left out beside these. All others (file_search, mcp, custom, ...) are
   * refused.
   */
  type: string;
  /** The function's name; of a namespace its own. Not empty. */
  name?: string | null;
  /** What it does, for the model. */
  description?: string | null;
  /** JSON Schema of its arguments. Default: none, or any. */
  parameters?: Record<string, unknown> | null;
  /** Whether a call that is forced follows the schema exactly, so that objects are closed. */
  strict?: boolean | null;
  /** Of a namespace: its functions, which the model sees as `namespace__name`. At most 4096 entries. */
  tools?:
    | readonly {
        /** "function". */
        type: string;
        /** The function's name; of a namespace its own. Not empty. */
        name?: string | null;
        /** What it does, for the model. */
        description?: string | null;
        /** JSON Schema of its arguments. Default: none, or any. */
        parameters?: Record<string, unknown> | null;
        /** Whether a call that is forced follows the schema exactly, so that objects are closed. */
        strict?: boolean | null;
      }[]
    | null;
  /** Further fields. */
  [toolField: string]: unknown;
}

/** The settings of a response. Absent and null both mean the default. */
export interface ResponseCreateParamsBase {
  /**
   * A base model, or a trained model's name, such as `project/name` or `entity/project/name:step3`; a NotFoundError
   * when there is none. Default: the engine's first base model.
   */
  model?: string | null;
  /**
   * What logits are divided by; 0 is greedy: the likeliest token. At least 0. Default: the model folder's; of trained
   * models, and where it has none, 1.
   */
  temperature?: number | null;
  /**
   * Only the likeliest tokens that together have this probability are drawn; 1: all. Above 0, at most 1. Default: the
   * model folder's; of trained models, and where it has none, 1.
   */
  top_p?: number | null;
  /**
   * Only so many of the likeliest tokens are drawn; 0 and -1: all. A whole number, at least -1. Default: the model
   * folder's; of trained models, and where it has none, 0.
   */
  top_k?: number | null;
  /**
   * Tokens less likely than this times the likeliest are not drawn; 0: all are. 0 to 1. Default: the model folder's; of
   * trained models, and where it has none, 0.
   */
  min_p?: number | null;
  /**
   * Divides positive and multiplies negative logits of tokens that prompt or reply have already. Above 0. Default: the
   * model folder's; of trained models, and where it has none, 1.
   */
  repetition_penalty?: number | null;
  /** Taken from a token's logit for every time that the reply has it already. -2 to 2. Default: 0. */
  frequency_penalty?: number | null;
  /** Taken from a token's logit when the reply has it already. -2 to 2. Default: 0. */
  presence_penalty?: number | null;
  /**
   * Added to the logits of tokens, by token id; clamped to [-100, 100]. Ids outside the vocabulary are a
   * ValidationError.
   */
  logit_bias?: { [tokenId: string]: number } | null;
  /**
   * A 64-bit integer, beyond 2^53 as BigInt: the same request with the same seed draws the same tokens. Choice i draws
   * as with seed + i. -1: none. Default: none.
   */
  seed?: number | bigint | null;
  /** Texts that end a choice, which is cut before them. Default: none. */
  stop?: string | readonly string[] | null;
  /**
   * Tokens that end a choice. Ids outside the vocabulary are a ValidationError. At most 524288 entries. Default: [].
   */
  stop_token_ids?: readonly number[] | null;
  /** Whether the text that ended a choice stays in it. Default: false. */
  include_stop_str_in_output?: boolean | null;
  /** Go on after the model's own end tokens; `stop_token_ids` still end a choice. Default: false. */
  ignore_eos?: boolean | null;
  /** Tokens before which nothing ends a choice. A whole number, at least 0. Default: 0. */
  min_tokens?: number | null;
  /** Leave special tokens out of the text. Default: true. */
  skip_special_tokens?: boolean | null;
  /**
   * The only tokens that may be drawn. Ids outside the vocabulary are a ValidationError. 1 to 524288 entries. Default:
   * all.
   */
  allowed_token_ids?: readonly number[] | null;
  /**
   * Words that are not written, at the start of a text or after a space; 100,000 characters at most together. At most
   * 16384 entries. Default: [].
   */
  bad_words?: readonly string[] | null;
  /**
   * Tokens at most that the model may think; then its thoughts are closed. -1: any number. A whole number, at least -1.
   * Default: any number.
   */
  thinking_token_budget?: number | null;
  /** What the reply follows. Not with a `response_format`, nor a function in `tool_choice`. Default: any text. */
  structured_outputs?: StructuredOutputs | null;
  /** A Jinja template instead of the model's own. */
  chat_template?: string | null;
  /** Further variables of the template. */
  chat_template_kwargs?: Record<string, unknown> | null;
  /** Lower runs earlier. A ValidationError unless it is 0 or the engine's scheduler is "priority". Default: 0. */
  priority?: number | null;
  /** Part of the reply's `id`. Default: a random one. */
  request_id?: string | null;
  /**
   * Cached prompts are shared only among requests of the same salt, so that nobody learns from the time a reply takes
   * what others asked. Not empty. Default: those without one share theirs, of each entity other than the owner's among
   * themselves.
   */
  cache_salt?: string | null;
  /** End a choice (`finish_reason: "repetition"`) whose last tokens repeat a pattern. Default: not looked for. */
  repetition_detection?: {
    /** Tokens of a pattern at most; 0: repetition is not looked for. A whole number, at least 0. Default: 0. */
    max_pattern_size?: number | null;
    /** Tokens of a pattern at least, up to `max_pattern_size`. A whole number, at least 0. Default: 0. */
    min_pattern_size?: number | null;
    /** Copies of a pattern in a row that end the reply, at least 2. A whole number, at least 0. Default: 0. */
    min_count?: number | null;
  } | null;
  /**
   * Tokens that a chunk of a stream waits for; the first and the last chunk do not wait. A whole number, at least 1.
   * Default: 1.
   */
  stream_interval?: number | null;
  /** Without effect. */
  user?: string | null;
  /**
   * What is answered: a text of the user, or items. Default: nothing beyond `instructions` and the previous response.
   */
  input?: string | readonly ResponseInputItemParam[] | null;
  /** A system message before everything else. Those of a previous response do not count any more. */
  instructions?: string | null;
  /**
   * A stored response that this one goes on from: its input and output stand before `input`, and those before them. A
   * NotFoundError when one of them is gone.
   */
  previous_response_id?: string | null;
  /**
   * Whether the response can be retrieved and gone on from. Kept for 30 days, the latest 10,000 of an entity. Default:
   * true.
   */
  store?: boolean | null;
  /**
   * Whether it is answered at once, before it is made: retrieve it then, or cancel it. Needs `store`. 1,000 at a time
   * at most. Default: false.
   */
  background?: boolean | null;
  /** Without effect. */
  stream_options?: {
    /** Without effect. */
    include_obfuscation?: boolean | null;
  } | null;
  /**
   * Tokens at most, thoughts included; lowered to the room that the input leaves in the context. A whole number, at
   * least 1. Default: the model folder's, else all of it.
   */
  max_output_tokens?: number | null;
  /** Functions that the model may call. At most 4096 entries. Default: none. */
  tools?: readonly ResponseToolParam[] | null;
  /**
   * "none": no calls. "auto": as the model likes, instead of a text in the form that `text` asks for too. "required":
   * at least one. Or (`type` "function", `name`) a function of `tools`, which is called; or (`type` "allowed_tools",
   * `mode`, `tools`) some of them. Default: "auto" where the model's calls can be read.
   */
  tool_choice?: string | { type: string; [choiceField: string]: unknown } | null;
  /** false: only the first call is kept. Default: true. */
  parallel_tool_calls?: boolean | null;
  /** Of tools that run in the service, of which there are none: without effect. A whole number, at least 1. */
  max_tool_calls?: number | null;
  /** How the text is to be. */
  text?: {
    /** The form that the text has. Default: any text. */
    format?: {
      /** "text", "json_object" or "json_schema". */
      type: string;
      /** Without effect. */
      name?: string | null;
      /** Without effect. */
      description?: string | null;
      /** With the type "json_schema": the JSON Schema. A keyword that cannot be enforced is a ValidationError. */
      schema?: { [key: string]: unknown } | null;
      /** Whether objects have no properties but those that the schema names. Default: false. */
      strict?: boolean | null;
    } | null;
    /** Without effect. */
    verbosity?: "low" | "medium" | "high" | null;
  } | null;
  /** How the model thinks before it answers. */
  reasoning?: {
    /** What it does is up to the chat template. Default: what the template takes it for. */
    effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null;
    /**
     * Thoughts come as the `summary` of a reasoning item instead of its `content`, word for word: nothing is left out.
     */
    summary?: "auto" | "concise" | "detailed" | null;
    /** Another spelling of `summary`. @deprecated */
    generate_summary?: "auto" | "concise" | "detailed" | null;
  } | null;
  /**
   * "message.output_text.logprobs": the logprobs of the text's tokens. "reasoning.encrypted_content": thoughts also in
   * a form that clients hand back without reading it (they are encoded, not secret). The others are of items that there
   * are none of. At most 64 entries.
   */
  include?:
    | readonly (
        | "message.output_text.logprobs"
        | "reasoning.encrypted_content"
        | "file_search_call.results"
        | "web_search_call.results"
        | "web_search_call.action.sources"
        | "message.input_image.image_url"
        | "computer_call_output.output.image_url"
        | "code_interpreter_call.outputs"
      )[]
    | null;
  /**
   * How many of the likeliest tokens every entry of the logprobs lists; above 0 they are included. A whole number, 0 to
   * 20. Default: 0.
   */
  top_logprobs?: number | null;
  /**
   * "disabled": input that does not fit the context is a ValidationError. "auto": the earliest turns are left out until
   * it fits beside the reply, for which `max_output_tokens` are kept free, else a quarter of the context, and half of
   * it at most. Default: "disabled".
   */
  truncation?: "auto" | "disabled" | null;
  /** Up to 16 texts by name, kept with the response: keys of 64 characters at most, values of 512. */
  metadata?: Record<string, string> | null;
  /** Without effect. */
  safety_identifier?: string | null;
  /** Without effect. */
  prompt_cache_key?: string | null;
  /** Without effect. */
  prompt_cache_retention?: string | null;
  /** Without effect. */
  service_tier?: string | null;
  /** Not available here: templates of prompts. Has to be null or absent. */
  prompt?: null;
  /** Not available here: conversations; `previous_response_id` is. Has to be null or absent. */
  conversation?: null;
  /** Not available here: compaction; `truncation` is. Has to be null or absent. */
  context_management?: null;
}

/** A response to create. */
export interface ResponseCreateParams extends ResponseCreateParamsBase {
  /** Whether the response comes as events, as it is made. Default: false. */
  stream?: boolean | null;
}

/** A response to create, in one piece. */
export interface ResponseCreateParamsNonStreaming extends ResponseCreateParamsBase {
  /** The response comes in one piece. */
  stream?: false | null;
}

/** A response to create, as events. */
export interface ResponseCreateParamsStreaming extends ResponseCreateParamsBase {
  /** The response comes as events, as it is made. */
  stream: true;
}

/** Which of a response's input items are wanted, and in which order. */
export interface ResponseItemQuery {
  /** Id of the last item already seen; the page begins after it. */
  after?: string | null;
  /** Items of the page at most. A whole number, 1 to 100. Default: 20. */
  limit?: number | null;
  /** By their place in the input. Default: "desc". */
  order?: "asc" | "desc" | null;
}

/** How a response is retrieved. */
export interface ResponseQuery {
  /** Whether it comes as the events it was made of; of one that has ended, as few as tell it. Default: false. */
  stream?: boolean | null;
  /**
   * Sequence number of the last event already seen; of a response that has ended, only its last event is told then. A
   * whole number, at least 0.
   */
  starting_after?: number | null;
}

/** How a response is retrieved, in one piece. */
export interface ResponseQueryNonStreaming extends ResponseQuery {
  /** It comes in one piece. */
  stream?: false | null;
}

/** How a response is retrieved, as events. */
export interface ResponseQueryStreaming extends ResponseQuery {
  /** It comes as the events it was made of. */
  stream: true;
}

/** What has become of a response. */
export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

/** A drawn token of a text. */
export interface ResponseLogprob {
  /** The token's text. */
  token: string;
  /** Natural logarithm of the raw probability, at least -9999. */
  logprob: number;
  /** UTF-8 of the token's own text. */
  bytes: number[];
  /** The likeliest tokens, falling. */
  top_logprobs: {
    /** The token's text. */
    token: string;
    /** Natural logarithm of the raw probability, at least -9999. */
    logprob: number;
    /** UTF-8 of the token's own text. */
    bytes: number[];
  }[];
}

/** A text that the model wrote. */
export interface ResponseOutputText {
  type: "output_text";
  /** The text. */
  text: string;
  /** Always empty. */
  annotations: never[];
  /** One entry per token, where they were asked for. */
  logprobs: ResponseLogprob[];
}

/** What the model says. */
export interface ResponseOutputMessage {
  type: "message";
  /** Its id. */
  id: string;
  role: "assistant";
  /** Whether it is whole. */
  status: "in_progress" | "completed" | "incomplete";
  /** One text. */
  content: ResponseOutputText[];
}

/** A function that the model wants called. */
export interface ResponseFunctionCall {
  type: "function_call";
  /** Its id. */
  id: string;
  /** What the call's output repeats. */
  call_id: string;
  /** The function's name. */
  name: string;
  /** The namespace that the function is of, if it is of one. */
  namespace?: string;
  /** JSON, as the model wrote it. */
  arguments: string;
  /** Whether it is whole. */
  status: "in_progress" | "completed" | "incomplete";
}

/** What the model thought, where it was asked for as a summary. */
export interface ResponseSummaryText {
  type: "summary_text";
  /** The thoughts. */
  text: string;
}

/** What the model thought. */
export interface ResponseReasoningText {
  type: "reasoning_text";
  /** The thoughts. */
  text: string;
}

/** What the model thought before it answered. */
export interface ResponseReasoningItem {
  type: "reasoning";
  /** Its id. */
  id: string;
  /** The thoughts, where they were asked for as a summary. */
  summary: ResponseSummaryText[];
  /** The thoughts, where they were not. */
  content?: ResponseReasoningText[];
  /** The thoughts encoded, where that was asked for. */
  encrypted_content?: string | null;
  /** Whether it is whole. */
  status: "in_progress" | "completed" | "incomplete";
}

/** An item of a response. */
export type ResponseOutputItem = ResponseOutputMessage | ResponseFunctionCall | ResponseReasoningItem;

/** How many tokens a response took. */
export interface ResponseUsage {
  /** Of the prompt. */
  input_tokens: number;
  /** More of the prompt. */
  input_tokens_details: {
    /** Of the prompt's: those that were not computed again. */
    cached_tokens: number;
    /** Always 0: what is cached is not counted apart. */
    cache_write_tokens: number;
  };
  /** Drawn. */
  output_tokens: number;
  /** More of what was drawn. */
  output_tokens_details: {
    /** Of these, those of thoughts. */
    reasoning_tokens: number;
  };
  /** Both. */
  total_tokens: number;
}

/** A function that the model may call. */
export interface ResponseFunctionTool {
  type: "function";
  /** The function's name. */
  name: string;
  /** What it does. */
  description: string | null;
  /** JSON Schema of its arguments. */
  parameters: Record<string, unknown> | null;
  /** As asked. */
  strict: boolean | null;
}

/** Functions under a common name. */
export interface ResponseNamespaceTool {
  type: "namespace";
  /** The name that its functions have in common. */
  name: string;
  /** What they are for. */
  description: string | null;
  /** Its functions. */
  tools: ResponseFunctionTool[];
}

/** What the model answered, and what it was asked. */
export interface ModelResponse {
  /** `resp_` and random characters. */
  id: string;
  object: "response";
  /** Unix time, in seconds. */
  created_at: number;
  /** When it was completed; null: it was not. */
  completed_at: number | null;
  /** What has become of it. */
  status: ResponseStatus;
  /** Why it failed. */
  error: {
    /** Which kind. */
    code: "server_error";
    /** What it was. */
    message: string;
  } | null;
  /** Why it is incomplete. */
  incomplete_details: {
    /** What ended it. */
    reason: "max_output_tokens" | "repetition";
  } | null;
  /** The model that answered; of a trained one with its step. */
  model: string;
  /** What the model thought, said and called, in this order. */
  output: ResponseOutputItem[];
  /** How many tokens it took, once it has ended. */
  usage: ResponseUsage | null;
  /** As asked. */
  instructions: string | null;
  /** As asked. */
  previous_response_id: string | null;
  /** As asked. */
  metadata: Record<string, string>;
  /** As asked. */
  store: boolean;
  /** As asked. */
  background: boolean;
  /** As asked; null: the model's own. */
  temperature: number | null;
  /** As asked; null: the model's own. */
  top_p: number | null;
  /** As asked. */
  presence_penalty: number;
  /** As asked. */
  frequency_penalty: number;
  /** As asked. */
  max_output_tokens: number | null;
  /** As asked. */
  max_tool_calls: number | null;
  /** As asked. */
  parallel_tool_calls: boolean;
  /** As asked. */
  tool_choice: string | { [choiceField: string]: unknown };
  /** As asked, without what is left out. */
  tools: (ResponseFunctionTool | ResponseNamespaceTool)[];
  /** As asked. */
  text: {
    /** As asked. */
    format: { [formatField: string]: unknown };
    /** As asked. */
    verbosity?: "low" | "medium" | "high";
  };
  /** As asked. */
  reasoning: {
    /** As asked. */
    effort: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null;
    /** As asked. */
    summary: "auto" | "concise" | "detailed" | null;
  };
  /** As asked. */
  top_logprobs: number;
  /** As asked. */
  truncation: "auto" | "disabled";
  /** As asked. */
  user?: string;
  /** As asked. */
  safety_identifier: string | null;
  /** As asked. */
  prompt_cache_key: string | null;
  /** Always "default". */
  service_tier: "default";
  /** Always null. */
  access_programs: null;
}

/** A response that was deleted. */
export interface ResponseDeleted {
  /** Its id. */
  id: string;
  object: "response";
  /** Always true. */
  deleted: true;
}

/** A message of the input. */
export interface ResponseInputMessageItem {
  type: "message";
  /** Its id. */
  id: string;
  /** Who says it. */
  role: string;
  /** Always completed. */
  status: "in_progress" | "completed" | "incomplete";
  /** Its texts. */
  content: (
    | {
        type: "input_text";
        /** The text. */
        text: string;
      }
    | ResponseOutputText
  )[];
}

/** What came of a call. */
export interface ResponseFunctionCallOutput {
  type: "function_call_output";
  /** Its id. */
  id: string;
  /** The call that it answers. */
  call_id: string;
  /** What the function gave. */
  output:
    | string
    | {
        type: "input_text";
        /** The text. */
        text: string;
      }[];
  /** Always completed. */
  status: "in_progress" | "completed" | "incomplete";
}

/** An item of a response's input. */
export type ResponseItem =
  | ResponseInputMessageItem
  | ResponseFunctionCall
  | ResponseFunctionCallOutput
  | ResponseReasoningItem;

/** A page of a response's input items. */
export interface ResponseItemList {
  object: "list";
  /** The items. */
  data: ResponseItem[];
  /** Whether there are items after these. */
  has_more: boolean;
  /** Id of the first item, "" when the page is empty. */
  first_id: string;
  /** Id of the last item, "" when the page is empty: the `after` of the next page. */
  last_id: string;
}

/** A part of a response as it is made. */
export type ResponseStreamEvent =
  | {
      type: "response.created";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The response as it is now. */
      response: ModelResponse;
    }
  | {
      type: "response.queued";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The response as it is now. */
      response: ModelResponse;
    }
  | {
      type: "response.in_progress";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The response as it is now. */
      response: ModelResponse;
    }
  | {
      type: "response.completed";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The response as it is now. */
      response: ModelResponse;
    }
  | {
      type: "response.incomplete";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The response as it is now. */
      response: ModelResponse;
    }
  | {
      type: "response.failed";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The response as it is now. */
      response: ModelResponse;
    }
  | {
      type: "response.output_item.added";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** Place of the item in the output. */
      output_index: number;
      /** The item as it is now. */
      item: ResponseOutputItem;
    }
  | {
      type: "response.output_item.done";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** Place of the item in the output. */
      output_index: number;
      /** The item as it is now. */
      item: ResponseOutputItem;
    }
  | {
      type: "response.content_part.added";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the item's content. */
      content_index: number;
      /** The part, empty. */
      part: ResponseOutputText | ResponseReasoningText;
    }
  | {
      type: "response.content_part.done";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the item's content. */
      content_index: number;
      /** The part. */
      part: ResponseOutputText | ResponseReasoningText;
    }
  | {
      type: "response.output_text.delta";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the item's content. */
      content_index: number;
      /** What comes next. */
      delta: string;
      /** Of the delta's tokens, where they were asked for. */
      logprobs: ResponseLogprob[];
    }
  | {
      type: "response.output_text.done";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the item's content. */
      content_index: number;
      /** All of it. */
      text: string;
      /** Of all its tokens, where they were asked for. */
      logprobs: ResponseLogprob[];
    }
  | {
      type: "response.reasoning_text.delta";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the item's content. */
      content_index: number;
      /** What comes next. */
      delta: string;
    }
  | {
      type: "response.reasoning_text.done";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the item's content. */
      content_index: number;
      /** All of it. */
      text: string;
    }
  | {
      type: "response.reasoning_summary_part.added";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the summary. */
      summary_index: number;
      /** The part, empty. */
      part: ResponseSummaryText;
    }
  | {
      type: "response.reasoning_summary_part.done";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the summary. */
      summary_index: number;
      /** The part. */
      part: ResponseSummaryText;
    }
  | {
      type: "response.reasoning_summary_text.delta";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the summary. */
      summary_index: number;
      /** What comes next. */
      delta: string;
    }
  | {
      type: "response.reasoning_summary_text.done";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** Place of the part in the summary. */
      summary_index: number;
      /** All of it. */
      text: string;
    }
  | {
      type: "response.function_call_arguments.delta";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** What comes next. */
      delta: string;
    }
  | {
      type: "response.function_call_arguments.done";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** The item's id. */
      item_id: string;
      /** Place of the item in the output. */
      output_index: number;
      /** The function's name. */
      name: string;
      /** All of it. */
      arguments: string;
    }
  | {
      type: "error";
      /** Its place among the events, from 0. */
      sequence_number: number;
      /** Which kind. */
      code: string | null;
      /** What it was. */
      message: string;
      /** The field at fault. */
      param: string | null;
    };
