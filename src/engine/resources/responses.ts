import { BadRequestError, NotFoundError } from "../../errors.js";
import { makePage, PagePromise } from "../../pages.js";
import { validate } from "../../schemas/validate.js";
import type { PageRequest, RequestOptions, ResponsesResource } from "../../types/client.js";
import type { Page } from "../../types/page.js";
import type {
  ModelResponse,
  ResponseCreateParams,
  ResponseCreateParamsNonStreaming,
  ResponseCreateParamsStreaming,
  ResponseDeleted,
  ResponseItem,
  ResponseItemQuery,
  ResponseQuery,
  ResponseQueryNonStreaming,
  ResponseQueryStreaming,
  ResponseStreamEvent,
} from "../../types/responses.js";
import type { View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import { responseHost } from "../responses/host.js";
import { accessResponse, inputOf, responseOf } from "../responses/keptResponses.js";
import { replay } from "../responses/replay.js";

type Events = AsyncIterable<ResponseStreamEvent>;

export class Responses implements ResponsesResource {
  readonly #core: EngineCore;
  readonly #view: View;
  readonly inputItems: ResponsesResource["inputItems"];

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
    this.inputItems = { list: (id, query, options) => this.#inputItems(id, query, options) };
  }

  create(params: ResponseCreateParamsStreaming, options?: RequestOptions): Promise<Events>;
  create(params: ResponseCreateParamsNonStreaming, options?: RequestOptions): Promise<ModelResponse>;
  create(params: ResponseCreateParams, options?: RequestOptions): Promise<ModelResponse | Events>;
  async create(params: ResponseCreateParams, options?: RequestOptions): Promise<ModelResponse | Events> {
    const { createResponse } = await import("../responses/createResponse.js");
    const { caller, strict } = this.#view;
    return createResponse(responseHost(this.#core), params, { caller, strict, signal: options?.signal });
  }

  retrieve(responseId: string, query: ResponseQueryStreaming, options?: RequestOptions): Promise<Events>;
  retrieve(responseId: string, query?: ResponseQueryNonStreaming, options?: RequestOptions): Promise<ModelResponse>;
  retrieve(responseId: string, query?: ResponseQuery, options?: RequestOptions): Promise<ModelResponse | Events>;
  async retrieve(
    responseId: string,
    query: ResponseQuery = {},
    options?: RequestOptions,
  ): Promise<ModelResponse | Events> {
    options?.signal?.throwIfAborted();
    const { strict, caller } = this.#view;
    const { responseQuery } = await import("../../schemas/responseRequests.js");
    const { stream, starting_after = null } = validate(responseQuery, query, { from: "query", strict });
    const record = accessResponse(this.#core.store, caller, responseId);
    const { background } = responseHost(this.#core);
    if (stream) {
      return background.follow(responseId, starting_after) ?? eventsOf(replay(responseOf(record), starting_after));
    }
    return background.current(responseId) ?? responseOf(record);
  }

  async delete(responseId: string, options?: RequestOptions): Promise<ResponseDeleted> {
    options?.signal?.throwIfAborted();
    accessResponse(this.#core.store, this.#view.caller, responseId);
    await responseHost(this.#core).background.remove(responseId);
    this.#core.store.responses.delete(responseId);
    return { id: responseId, object: "response", deleted: true };
  }

  async cancel(responseId: string, options?: RequestOptions): Promise<ModelResponse> {
    options?.signal?.throwIfAborted();
    const { store } = this.#core;
    const asked = responseOf(accessResponse(store, this.#view.caller, responseId));
    if (!asked.background) {
      throw new BadRequestError("only a response made in the background can be cancelled", {
        code: "not_background",
        param: "response_id",
      });
    }
    await responseHost(this.#core).background.cancel(responseId);
    return responseOf(accessResponse(store, this.#view.caller, responseId));
  }

  #inputItems(responseId: string, query: ResponseItemQuery = {}, options?: RequestOptions): PageRequest<ResponseItem> {
    const page = async (after: string | null | undefined): Promise<Page<ResponseItem>> => {
      options?.signal?.throwIfAborted();
      const { strict, caller } = this.#view;
      const { responseItemQuery } = await import("../../schemas/responseRequests.js");
      const asked = validate(responseItemQuery, { ...query, after }, { from: "query", strict });
      const items = await inputOf(accessResponse(this.#core.store, caller, responseId));
      if (asked.order === "desc") items.reverse();
      const from = asked.after == null ? 0 : items.findIndex(({ id }) => id === asked.after) + 1;
      if (asked.after != null && from === 0) {
        throw new NotFoundError(`no item ${asked.after} in the input of this response`, { param: "after" });
      }
      const data = items.slice(from, from + asked.limit);
      return makePage(data, from + data.length < items.length, page);
    };
    return new PagePromise(() => page(query.after));
  }
}

async function* eventsOf(events: ResponseStreamEvent[]): AsyncGenerator<ResponseStreamEvent> {
  yield* events;
}
