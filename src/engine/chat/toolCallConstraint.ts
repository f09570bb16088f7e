// A reply that must be tool calls, each with arguments that its function's parameters allow.

import { withoutFloatMarks } from "../../json.js";
import type { ChatRequest } from "../../schemas/chat.js";
import type { ToolFormat } from "../../text/index.js";
import type { RequestConstraint } from "./constraint.js";

type Tool = NonNullable<ChatRequest["tools"]>[number];

/** How a format writes a call: the text before its name, the key of its arguments, and the text after them. */
const CALL_TEXTS: Readonly<Record<ToolFormat, { before: string; key: string; after: string; between: string }>> = {
  hermes: { before: '<tool_call>\n{"name": "', key: "arguments", after: "}\n</tool_call>", between: "\n" },
  llama3: { before: '{"name": "', key: "parameters", after: "}", between: "; " },
};

/** `name`: the one function to call; null: any, once or `several` times. */
export function toolCallConstraint(
  format: ToolFormat,
  tools: readonly Tool[],
  name: string | null,
  several: boolean,
): RequestConstraint {
  const { before, key, after, between } = CALL_TEXTS[format];
  const head = (tool: Tool) => `${JSON.stringify(tool.function.name).slice(1, -1)}", "${key}": `;
  const argumentsOf = (tool: Tool) => ({ type: "json_schema", json_schema: schemaOf(tool) });
  const constraint = (elements: object[]): RequestConstraint["constraint"] => ({
    kind: "structural_tag",
    tag: { format: { type: "sequence", elements } },
    // Names that a function does not declare are of no use to it.
    format: { whitespacePattern: null, disableAnyWhitespace: false, disableAdditionalProperties: true },
  });
  if (name !== null) {
    const index = tools.findIndex((tool) => tool.function.name === name);
    const tool = tools[index]!;
    const opening = { type: "const_string", value: before + head(tool) };
    return {
      field: "tools",
      constraint: constraint([opening, argumentsOf(tool), { type: "const_string", value: after }]),
      // "format", "elements", "1", "json_schema", ...
      locate: (path) => ["tools", String(index), "function", "parameters", ...path.slice(4)],
    };
  }
  const calls = {
    type: "tags_with_separator",
    tags: tools.map((tool) => ({ type: "tag", begin: head(tool), content: argumentsOf(tool), end: after })),
    separator: between + before,
    at_least_one: true,
    stop_after_first: !several,
  };
  return {
    field: "tools",
    constraint: constraint([{ type: "const_string", value: before }, calls]),
    // "format", "elements", "1", "tags", i, "content", "json_schema", ...
    locate: (path) => ["tools", path[4] ?? "0", "function", "parameters", ...path.slice(7)],
  };
}

/** Arguments are always an object. */
function schemaOf(tool: Tool): object {
  const parameters = withoutFloatMarks(tool.function.parameters ?? {}) as object;
  return "type" in parameters ? parameters : { type: "object", ...parameters };
}
