// A reply that must be tool calls, each with arguments that its function's parameters allow.

import type { ChatRequest } from "../../schemas/chat.js";
import type { ToolFormat } from "../../text/index.js";
import type { RequestConstraint } from "./constraint.js";

type Tool = NonNullable<ChatRequest["tools"]>[number];

/** How a format writes a call: the text before its name, the key of its arguments, and the text after them. */
const CALL_TEXTS: Readonly<Record<ToolFormat, { before: string; key: string; after: string; between: string }>> = {
  hermes: { before: '<tool_call>\n{"name": "', key: "arguments", after: "}\n</tool_call>", between: "\n" },
  llama3: { before: '{"name": "', key: "parameters", after: "}", between: "; " },
};

/** What the reply goes on with: the text of a call up to its name, or up to its arguments when the name is given. */
export function callOpening(format: ToolFormat, name: string | null): string {
  const { before } = CALL_TEXTS[format];
  return name === null ? before : before + callHead(format, name);
}

function callHead(format: ToolFormat, name: string): string {
  return `${JSON.stringify(name).slice(1, -1)}", "${CALL_TEXTS[format].key}": `;
}

/** `name`: the one function to call, whose opening is written up to the arguments; null: any, once or `several` times. */
export function toolCallConstraint(
  format: ToolFormat,
  tools: readonly Tool[],
  name: string | null,
  several: boolean,
): RequestConstraint {
  const { before, after, between } = CALL_TEXTS[format];
  const jsonFormat = { whitespacePattern: null, disableAnyWhitespace: false, disableAdditionalProperties: false };
  const argumentsOf = (tool: Tool) => ({ type: "json_schema", json_schema: schemaOf(tool) });
  if (name !== null) {
    const index = tools.findIndex((tool) => tool.function.name === name);
    const elements = [argumentsOf(tools[index]!), { type: "const_string", value: after }];
    return {
      field: "tools",
      constraint: { kind: "structural_tag", tag: { format: { type: "sequence", elements } }, format: jsonFormat },
      // "format", "elements", "0", "json_schema", ...
      locate: (path) => ["tools", String(index), "function", "parameters", ...path.slice(4)],
    };
  }
  const tags = tools.map((tool) => ({
    type: "tag",
    begin: callHead(format, tool.function.name),
    content: argumentsOf(tool),
    end: after,
  }));
  const tag = {
    format: {
      type: "tags_with_separator",
      tags,
      separator: between + before,
      at_least_one: true,
      stop_after_first: !several,
    },
  };
  return {
    field: "tools",
    constraint: { kind: "structural_tag", tag, format: jsonFormat },
    // "format", "tags", i, "content", "json_schema", ...
    locate: (path) => ["tools", path[2] ?? "0", "function", "parameters", ...path.slice(5)],
  };
}

/** Arguments are always an object. */
function schemaOf(tool: Tool): object {
  const parameters = tool.function.parameters ?? {};
  return "type" in parameters ? parameters : { type: "object", ...parameters };
}
