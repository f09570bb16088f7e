// A reply that must be tool calls, each with arguments that its function's parameters allow.

import type { SingleConstraint } from "../../structuredOutputs/index.js";
import type { CallTexts } from "../../text/index.js";
import type { RequestConstraint } from "./constraint.js";
import type { Tool } from "./toolChoice.js";

/** `name`: the one function to call; null: any, once or `several` times. `all`: the request's tools, of which `tools` are. */
export function toolCallConstraint(
  { open, head, style, tail, between, close }: CallTexts,
  tools: readonly Tool[],
  name: string | null,
  several: boolean,
  all: readonly Tool[] = tools,
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
  const placeOf = (tool: Tool) => ["tools", String(all.indexOf(tool)), "function", "parameters"];
  const constant = (value: string) => ({ type: "const_string", value });
  if (name !== null) {
    const tool = tools.find((one) => one.function.name === name)!;
    return {
      field: "tools",
      constraint: constraint([constant(open + head(tool.function.name)), argumentsOf(tool), constant(tail + close)]),
      // "format", "elements", "1", "json_schema", ...
      locate: (path) => [...placeOf(tool), ...path.slice(4)],
    };
  }
  const calls = {
    type: "tags_with_separator",
    tags: tools.map((tool) => ({
      ...{ type: "tag", begin: head(tool.function.name), content: argumentsOf(tool), end: tail },
    })),
    separator: between ?? "",
    at_least_one: true,
    stop_after_first: !several || between === null,
  };
  return {
    field: "tools",
    constraint: constraint([constant(open), calls, constant(close)]),
    // "format", "elements", "1", "tags", i, "content", "json_schema", ...
    locate: (path) => [...placeOf(tools[Number(path[4] ?? 0)]!), ...path.slice(7)],
  };
}
