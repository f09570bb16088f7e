// Anthropic's messages over HTTP.

import type { ExactFields } from "../json.js";
import * as schemas from "../schemas/messages.js";
import { validateAsync } from "../schemas/validate.js";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionCreateParams } from "../types/chat.js";
import type { TokenizeParams } from "../types/tokens.js";
import { messageErrorBody } from "./errorBodies.js";
import { asMessageFault, chatParams, promptParams } from "./messageParams.js";
import { messageEvents, messageOf } from "./messageReply.js";
import type { Call, Route } from "./route.js";
import { streamed } from "./sse.js";

/** What a template shows is shown as it is spelled. */
const EXACT_FIELDS: ExactFields = {
  messages: "spellings",
  output_config: "spellings",
  tools: "spellings",
  chat_template_kwargs: "floats",
};

const events = {
  event: (value: unknown) => eventOf((value as schemas.MessageEvent).type, value),
  failure: (error: unknown) => eventOf("error", messageErrorBody(error)),
  end: "",
};

const eventOf = (type: string, data: unknown) => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;

async function create(call: Call): Promise<unknown> {
  const { as, json, signal, requestId } = call;
  const request = await validateAsync(schemas.messageCreate, await json(EXACT_FIELDS));
  const params = { ...chatParams(request), request_id: requestId } as unknown as ChatCompletionCreateParams;
  const client = new AbortController();
  const signals = AbortSignal.any([signal, client.signal]);
  const reply = await as.chat.completions.createWithinContext(params, { signal: signals }).catch(refuseAs(request));
  if (!(Symbol.asyncIterator in reply)) return messageOf(reply as ChatCompletion);
  return streamed(messageEvents(reply as AsyncIterable<ChatCompletionChunk>), events, call, client);
}

/** For what a chat completion, or counting its tokens, rejects with. */
const refuseAs =
  (request: schemas.MessageCountRequest) =>
  (error: unknown): never => {
    throw asMessageFault(error, request);
  };

async function countTokens({ as, json, signal }: Call): Promise<unknown> {
  const request = await validateAsync(schemas.messageCount, await json(EXACT_FIELDS));
  const params = promptParams(request) as TokenizeParams;
  const { count } = await as.tokens.tokenize(params, { signal }).catch(refuseAs(request));
  return { input_tokens: count };
}

export const messageRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/v1/messages",
    summary: "Create a message, as Anthropic's clients ask for it",
    body: schemas.messageCreate,
    response: schemas.messageReply,
    events: schemas.messageEvent,
    eventsAreNamed: true,
    handle: create,
  },
  {
    method: "POST",
    path: "/v1/messages/count_tokens",
    summary: "Count the tokens of such a message's prompt",
    body: schemas.messageCount,
    response: schemas.messageCounted,
    handle: countTokens,
  },
];
