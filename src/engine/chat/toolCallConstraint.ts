// A reply that must be tool calls, each with arguments that its function's parameters allow.

import type { ChatRequest } from "../../schemas/chat.js";
import type { SingleConstraint } from "../../structuredOutputs/index.js";
import type { CallTexts } from "../../text/index.js";
import type { RequestConstraint } from "./constraint.js";

type Tool = NonNullable<ChatRequest["tools"]>[number];

/** `name`: the one function to call; null: any, once or `several` times. */
export function toolCallConstraint(
  { open, head, style, tail, between, close }: CallTexts,
  tools: readonly Tool[],
  name: string | null,
  several: boolean,
): RequestConstraint<SingleConstraint> {
  const argumentsOf = (tool: Tool) => ({ type: "json_schema", json_schema: tool.function.parameters ?? {}, style });
  const constraint = (elements: object[]): SingleConstraint => ({
    kind: "structural_tag",
    tag: { format: { type: "sequence", elements } },
    // Names that a function does not declare are of no use to it.
    format: {
      whitespacePattern: null,
      disableAnyWhitespace: false,
      disableAdditionalProperties: true,
      anyOrder: false,
    },
  });
  const constant = (value: string) => ({ type: "const_string", value });
  if (name !== null) {
    const index = tools.findIndex((tool) => tool.function.name === name);
    const tool = tools[index]!;
    return {
      field: "tools",
      constraint: constraint([constant(open + head(tool.function.name)), argumentsOf(tool), constant(tail + close)]),
      // "format", "elements", "1", "json_schema", ...
      locate: (path) => ["tools", String(index), "function", "parameters", ...path.slice(4)],
    };
  }
  const calls = {
    type: "tags_with_separator",
    tags: tools.map((tool) => ({
      ...{ type: "tag", begin: head(tool.function.name), content: argumentsOf(tool), end: tail },
    })),
    separator: between,
    at_least_one: true,
    stop_after_first: !several,
  };
  return {
    field: "tools",
    constraint: constraint([constant(open), calls, constant(close)]),
    // "format", "elements", "1", "tags", i, "content", "json_schema", ...
    locate: (path) => ["tools", path[4] ?? "0", "function", "parameters", ...path.slice(7)],
  };
}
