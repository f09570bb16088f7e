// Responses: a chat completion asked for and answered in items and events.

import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import { responseCreate } from "../../schemas/responseRequests.js";
import { validateAsync } from "../../schemas/validate.js";
import type { ModelResponse, ResponseStreamEvent } from "../../types/responses.js";
import type { ChatCall } from "../chat/host.js";
import type { ResponseHost } from "./host.js";
import { Making } from "./making.js";

/**
 * Answers with a response, or with its events once the request has been accepted. Leaving the loop over the events aborts,
 * unless it is made in the background.
 * @throws as `createChatCompletion`; NotFoundError for a previous response or an item that is not there.
 */
export async function createResponse(
  host: ResponseHost,
  params: unknown,
  call: ChatCall,
): Promise<ModelResponse | AsyncIterable<ResponseStreamEvent>> {
  while (shouldYield()) await yieldToEventLoop();
  const request = await validateAsync(responseCreate, params, { strict: call.strict });
  call.signal?.throwIfAborted();
  const making = await Making.begin(host, request, call);
  if (request.background) return host.background.start(making, request.stream);
  if (request.stream) return making.stream();
  return making.whole();
}
