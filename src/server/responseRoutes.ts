// Responses over HTTP.

import type { ExactFields } from "../json.js";
import * as requests from "../schemas/responseRequests.js";
import * as schemas from "../schemas/responses.js";
import type { ResponseCreateParams, ResponseItemQuery, ResponseQuery } from "../types/responses.js";
import type { Call, Route } from "./route.js";
import { streamed, typedEvents } from "./sse.js";

const EXACT_FIELDS: ExactFields = {
  seed: "integers",
  priority: "integers",
  text: "spellings",
  structured_outputs: "spellings",
  tools: "spellings",
  chat_template_kwargs: "floats",
};

async function create(call: Call): Promise<unknown> {
  const { as, json, signal, request, requestId } = call;
  const body = await json(EXACT_FIELDS);
  const isNamed = request.headers.has("x-request-id") && typeof body === "object" && !Array.isArray(body);
  const params = (isNamed ? { ...body, request_id: requestId } : body) as ResponseCreateParams;
  const client = new AbortController();
  const reply = await as.responses.create(params, { signal: AbortSignal.any([signal, client.signal]) });
  return Symbol.asyncIterator in reply ? streamed(reply, typedEvents(), call, client) : reply;
}

async function retrieve(call: Call): Promise<unknown> {
  const { as, params, query } = call;
  const reply = await as.responses.retrieve(params.response_id!, query as ResponseQuery);
  return Symbol.asyncIterator in reply ? streamed(reply, typedEvents(), call, new AbortController()) : reply;
}

const one = "/v1/responses/:response_id";

export const responseRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/v1/responses",
    summary: "Create a response",
    body: requests.responseCreate,
    response: schemas.response,
    events: schemas.responseStreamEvent,
    eventsAreNamed: true,
    handle: create,
  },
  {
    method: "GET",
    path: one,
    summary: "Get a response that was kept",
    query: requests.responseQuery,
    response: schemas.response,
    events: schemas.responseStreamEvent,
    eventsAreNamed: true,
    handle: retrieve,
  },
  {
    method: "DELETE",
    path: one,
    summary: "Delete a response",
    response: schemas.responseDeleted,
    handle: ({ as, params }) => as.responses.delete(params.response_id!),
  },
  {
    method: "POST",
    path: `${one}/cancel`,
    summary: "Cancel a response that is made in the background",
    response: schemas.response,
    handle: ({ as, params }) => as.responses.cancel(params.response_id!),
  },
  {
    method: "GET",
    path: `${one}/input_items`,
    summary: "List what a response was asked with",
    query: requests.responseItemQuery,
    response: schemas.responseItemList,
    handle: async ({ as, params, query }) =>
      as.responses.inputItems.list(params.response_id!, query as ResponseItemQuery),
  },
];
