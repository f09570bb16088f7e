// The events of a response that has ended, as few as tell it.

import { namespacedName } from "../../schemas/offeredFunctions.js";
import type { ModelResponse, ResponseStreamEvent } from "../../types/responses.js";
import { ResponseWriter } from "./responseWriter.js";

/** `startingAfter`: number of the last event already seen. How they were cut then is not known any more: only the last is told. */
export function replay(response: ModelResponse, startingAfter: number | null): ResponseStreamEvent[] {
  const { output, status, error, incomplete_details, usage } = response;
  const ids = output.map(({ id }) => id);
  const thoughts = output.find((item) => item.type === "reasoning");
  const begun: ModelResponse = {
    ...structuredClone(response),
    ...{ status: "in_progress", output: [], usage: null, error: null, incomplete_details: null, completed_at: null },
  };
  const summarises = (thoughts?.summary.length ?? 0) > 0;
  const options = { summarises, encodes: (thoughts?.encrypted_content ?? null) !== null, idOf: () => ids.shift()! };
  const writer = new ResponseWriter(begun, options);
  writer.begin();
  for (const [index, item] of output.entries()) {
    if (item.type === "reasoning") {
      writer.think([...(item.content ?? []), ...item.summary].map(({ text }) => text).join(""));
    } else if (item.type === "message") {
      for (const { text, logprobs } of item.content) writer.say(text, logprobs);
    } else {
      const { call_id: id, arguments: text } = item;
      const name = namespacedName(item.namespace, item.name);
      writer.callFunction({ index, id, type: "function", function: { name, arguments: text } });
    }
  }
  if (status === "failed") writer.fail(error?.message ?? "");
  else if (status === "cancelled") writer.cancel();
  else writer.end(incomplete_details?.reason ?? null, usage!);
  const events = writer.take();
  const last = events.at(-1);
  // As it is kept, with the time at which it ended.
  if (last !== undefined && "response" in last) last.response = response;
  if (startingAfter === null || last === undefined) return events;
  return status === "cancelled"
    ? []
    : [{ ...last, sequence_number: Math.max(last.sequence_number, startingAfter + 1) }];
}
