// The tools of a chat, and which of them it calls.

import * as z from "zod";
import { field, named, optionalInType, typed } from "./fields.js";
import { list, looseObject } from "./limited.js";
import { freeObject, MAX_TOOLS } from "./parts.js";

const toolFunction = looseObject({
  name: field(z.string().min(1), "The function's name."),
  description: field(z.string().nullish(), "What it does, for the model."),
  parameters: field(freeObject.nullish(), "JSON Schema of its arguments. Default: none, or any."),
  strict: field(
    z.boolean().nullish(),
    "Whether a call that is forced follows the schema exactly, so that objects are closed.",
  ),
});

export const chatTool = named(
  "ChatTool",
  looseObject({
    type: field(typed(z.literal("function"), "string"), '"function"; tools of other types are refused.'),
    function: field(optionalInType(toolFunction), "The function."),
  }),
  "A function that the model may call.",
);

const toolChoiceFunction = named(
  "ChatToolChoiceFunction",
  z.object({
    type: z.literal("function"),
    function: field(z.object({ name: z.string().min(1) }), "The `name` of one of the request's tools."),
  }),
  "That a certain function has to be called.",
);

const allowedTool = looseObject({
  type: z.literal("function"),
  function: field(looseObject({ name: z.string().min(1) }), "Its `name`."),
});

const toolChoiceAllowedTools = named(
  "ChatToolChoiceAllowedTools",
  z.object({
    type: z.literal("allowed_tools"),
    allowed_tools: field(
      z.object({
        mode: field(z.enum(["auto", "required"]), "As `tool_choice` itself."),
        tools: field(list(allowedTool, MAX_TOOLS).min(1), "Which of the request's tools."),
      }),
      "The tools, and whether one has to be called.",
    ),
  }),
  "That some of the request's tools may be called or have to be; the model is shown no others.",
);

export const toolChoice = typed(
  z.union([z.enum(["none", "auto", "required"]), toolChoiceFunction, toolChoiceAllowedTools]),
  "string | ChatToolChoiceFunction | ChatToolChoiceAllowedTools | { type: string }",
);

export type ToolChoice = z.output<typeof toolChoice>;

export function isNamedChoice(choice: ToolChoice): choice is z.output<typeof toolChoiceFunction> {
  return typeof choice === "object" && choice.type === "function";
}

/** Functions that a choice names, and where in it. */
export function namedTools(choice: ToolChoice): [path: string[], name: string][] {
  if (typeof choice === "string") return [];
  if (choice.type === "function") return [[[], choice.function.name]];
  return choice.allowed_tools.tools.map((tool, i) => [["allowed_tools", "tools", String(i)], tool.function.name]);
}

export function isNamed(tool: z.output<typeof chatTool>, name: string): boolean {
  return tool.function.name === name;
}
