// What a response is asked with, as items that can be kept and listed.

import { randomBytes } from "node:crypto";
import { NotFoundError, ValidationError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import type { ResponseRequest } from "../../schemas/responseRequests.js";
import type { ResponseItem } from "../../types/responses.js";
import { decodeThoughts } from "./thoughts.js";

type Given = Exclude<NonNullable<ResponseRequest["input"]>, string>[number];
type InputText = { type: "input_text"; text: string };

/** An item, and where in the request it stands; null: it was there before. */
export interface PlacedItem {
  item: ResponseItem;
  place: string | null;
}

export const newId = (prefix: string): string => `${prefix}_${randomBytes(24).toString("hex")}`;

const ROLES = new Set(["user", "assistant", "system", "developer"]);
const KNOWN_ID = /^[\w-]{1,128}$/;

/**
 * The items of `input`. `find` gives what an item_reference stands for.
 * @throws ValidationError naming the item and its field; NotFoundError for a reference to nothing.
 */
export async function inputItems(
  input: ResponseRequest["input"],
  find: (id: string) => ResponseItem | null,
): Promise<PlacedItem[]> {
  if (input == null) return [];
  if (typeof input === "string") {
    return [{ item: userMessage(newId("msg"), input), place: "input" }];
  }
  const items: PlacedItem[] = [];
  for (const [index, given] of input.entries()) {
    const place = `input.${index}`;
    items.push({ item: given.type === "item_reference" ? referred(given.id, place) : itemOf(given, place), place });
    while (index % 64 === 63 && shouldYield()) await yieldToEventLoop();
  }
  return items;

  function referred(id: string | null | undefined, place: string): ResponseItem {
    const item = id == null ? null : find(id);
    if (item !== null) return item;
    throw new NotFoundError(`there is no item "${id}"`, { code: "item_not_found", param: `${place}.id` });
  }
}

function userMessage(id: string, text: string): ResponseItem {
  return { type: "message", id, role: "user", status: "completed", content: [{ type: "input_text", text }] };
}

function itemOf(given: Given, place: string): ResponseItem {
  const id = (prefix: string) => (given.id != null && KNOWN_ID.test(given.id) ? given.id : newId(prefix));
  const text = (field: "call_id" | "name" | "arguments"): string => {
    const value = given[field];
    if (typeof value === "string" && (value !== "" || field === "arguments")) return value;
    throw ValidationError.at(`${place}.${field}`, "is required", "missing");
  };
  const status = "completed";
  const type = given.type ?? "message";
  switch (type) {
    case "message": {
      const role = given.role ?? "";
      if (!ROLES.has(role)) {
        throw ValidationError.at(`${place}.role`, `must be one of ${[...ROLES].join(", ")}`, "literal_error");
      }
      const isSaid = role === "assistant";
      const texts = textsOf(given.content, `${place}.content`);
      const content = texts.map((said) =>
        isSaid
          ? ({ type: "output_text", text: said, annotations: [], logprobs: [] } as const)
          : ({ type: "input_text", text: said } as const),
      );
      return { type, id: id("msg"), role, status, content: content as InputText[] };
    }
    case "function_call":
      return {
        type,
        id: id("fc"),
        call_id: text("call_id"),
        name: text("name"),
        ...(given.namespace == null ? {} : { namespace: given.namespace }),
        arguments: text("arguments"),
        status,
      };
    case "function_call_output": {
      if (given.output == null) throw ValidationError.at(`${place}.output`, "is required", "missing");
      const output =
        typeof given.output === "string"
          ? given.output
          : textsOf(given.output, `${place}.output`).map((said): InputText => ({ type: "input_text", text: said }));
      return { type, id: id("fco"), call_id: text("call_id"), output, status };
    }
    case "reasoning": {
      const told = textsOf(given.content ?? [], `${place}.content`);
      const summary = textsOf(given.summary ?? [], `${place}.summary`);
      const kept = told.length + summary.length > 0 ? null : decodeThoughts(given.encrypted_content ?? "");
      const content = kept === null ? told : [kept];
      return {
        type,
        id: id("rs"),
        summary: summary.map((said) => ({ type: "summary_text", text: said })),
        content: content.map((said) => ({ type: "reasoning_text", text: said })),
        status,
      };
    }
    default: {
      const message = `"${type}" is not available here: messages, function calls and their outputs, reasoning and references are`;
      throw ValidationError.at(`${place}.type`, message, "not_supported");
    }
  }
}

const TEXT_TYPES = new Set(["input_text", "output_text", "text", "reasoning_text", "summary_text"]);

/** The texts of a content. @throws ValidationError for parts that are no texts. */
function textsOf(content: string | readonly unknown[] | null | undefined, place: string): string[] {
  if (content == null) throw ValidationError.at(place, "is required", "missing");
  if (typeof content === "string") return [content];
  return content.map((part, index) => {
    const { type, text, refusal } = (typeof part === "object" && part !== null ? part : {}) as Record<string, unknown>;
    if (type === "refusal" && typeof refusal === "string") return refusal;
    if (!TEXT_TYPES.has(type as string)) {
      const named = typeof type === "string" ? `"${type}"` : "such a part";
      throw ValidationError.at(
        `${place}.${index}.type`,
        `${named} is not available here: only texts are`,
        "not_supported",
      );
    }
    if (typeof text !== "string") throw ValidationError.at(`${place}.${index}.text`, "must be a text", "string_type");
    return text;
  });
}
