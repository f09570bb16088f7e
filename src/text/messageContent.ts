// A message's content, as a request writes it, in the form a template wants.

import { ConversationError } from "./errors.js";

/** A part of a content in the form templates know, with the extra keys it came with. */
export interface TextPart {
  type: "text";
  text: string;
  [key: string]: unknown;
}

/** Which field of a part holds its text. */
const TEXT_FIELDS: Readonly<Record<string, string>> = {
  text: "text",
  input_text: "text",
  output_text: "text",
  refusal: "refusal",
  thinking: "thinking",
};

/**
 * The parts of a content, all of them text. A bare string is a part; null and absent have none. Throws
 * ConversationError at `location` for anything else: these models read text only.
 */
export function contentParts(content: unknown, location: string): TextPart[] {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!Array.isArray(content)) throw new ConversationError(location, "must be a text, a list of parts or null");
  return content.map((part, index) => textPart(part, `${location}.${index}`));
}

function textPart(part: unknown, location: string): TextPart {
  if (typeof part === "string") return { type: "text", text: part };
  if (typeof part !== "object" || part === null || Array.isArray(part)) {
    throw new ConversationError(location, "must be a text or an object with a type");
  }
  const { type, ...rest } = part as Record<string, unknown>;
  if (typeof type !== "string") throw new ConversationError(`${location}.type`, "is required and must be a text");
  const field = Object.hasOwn(TEXT_FIELDS, type) ? TEXT_FIELDS[type]! : undefined;
  if (field === undefined) {
    const known = Object.keys(TEXT_FIELDS).join(", ");
    throw new ConversationError(`${location}.type`, `${JSON.stringify(type)} is not supported; parts may be ${known}`);
  }
  const text = rest[field];
  if (typeof text !== "string") throw new ConversationError(`${location}.${field}`, "is required and must be a text");
  const { [field]: _, ...extra } = rest;
  return { ...extra, type: "text", text };
}

/** The text of a content: its parts with a newline between them. Throws ConversationError as contentParts does. */
export function contentText(content: unknown, location: string): string {
  return contentParts(content, location)
    .map((part) => part.text)
    .join("\n");
}
