// Responses that are kept: who may see them, and what goes before one.

import * as z from "zod";
import { NotFoundError, ValidationError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import { parseJsonAsync } from "../../jsonAsync.js";
import { stringifyAsync } from "../../jsonPieces.js";
import { MAX_MESSAGES } from "../../schemas/parts.js";
import { validate } from "../../schemas/validate.js";
import type { ResponseRecord } from "../../store/responses.js";
import type { Store } from "../../store/store.js";
import type { ModelResponse, ResponseItem } from "../../types/responses.js";
import type { Caller } from "../core/access.js";
import type { PlacedItem } from "./inputItems.js";

function notFound(id: string, param: string): NotFoundError {
  return new NotFoundError(`there is no response "${id}"`, {
    code: param === "previous_response_id" ? "previous_response_not_found" : "response_not_found",
    param,
    hint: "responses are kept for 30 days, unless they were made with store: false",
  });
}

const responsePath = z.object({ response_id: z.string() });

/** A caller's response; those of other entities are not there for others than the owner. @throws ValidationError, NotFoundError */
export function accessResponse(store: Store, caller: Caller, id: string, param = "response_id"): ResponseRecord {
  validate(responsePath, { response_id: id }, { from: "path" });
  const record = store.responses.get(id);
  if (record && (caller.owner || record.entity === caller.entity)) return record;
  throw notFound(id, param);
}

export async function keep(store: Store, entity: string, response: ModelResponse, input: string): Promise<void> {
  const { id, previous_response_id: previousId, output, status } = response;
  const record = { id, entity, previousId, input, response: await stringifyAsync(response) };
  const isFinished = status !== "queued" && status !== "in_progress";
  store.responses.put(
    record,
    output.map((item) => item.id),
    isFinished,
  );
}

export const responseOf = (record: ResponseRecord): ModelResponse => JSON.parse(record.response) as ModelResponse;

export const inputOf = async (record: ResponseRecord): Promise<ResponseItem[]> =>
  (await parseJsonAsync(Buffer.from(record.input))) as ResponseItem[];

/**
 * The items of a response and of all before it.
 * @throws NotFoundError when one of them is gone; ValidationError when they are too many, or one has not ended.
 */
export async function itemsUpTo(store: Store, caller: Caller, id: string): Promise<PlacedItem[]> {
  const turns: ResponseItem[][] = [];
  let count = 0;
  for (let at: string | null = id; at !== null; ) {
    const record = accessResponse(store, caller, at, "previous_response_id");
    const { output, status } = responseOf(record);
    if (status === "queued" || status === "in_progress") {
      throw ValidationError.at("previous_response_id", `the response ${at} has not ended yet`);
    }
    const items = [...(await inputOf(record)), ...output];
    count += items.length;
    if (count > MAX_MESSAGES) {
      throw ValidationError.at("previous_response_id", `more than ${MAX_MESSAGES} items go before`);
    }
    turns.push(items);
    at = record.previousId;
    while (shouldYield()) await yieldToEventLoop();
  }
  return turns
    .reverse()
    .flat()
    .map((item) => ({ item, place: null }));
}

/** What an item_reference of a caller stands for; null: nothing. */
export function keptItem(store: Store, caller: Caller, id: string): ResponseItem | null {
  const record = store.responses.findByOutput(caller.entity, id);
  return (record && responseOf(record).output.find((item) => item.id === id)) ?? null;
}
