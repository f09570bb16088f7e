// Tools for templates that know none, as the families' own documents put them into the messages.

import { type ChatTemplate, compileChatTemplate } from "../jinja/chatTemplate.js";
import type { TemplateInput } from "../jinja/input.js";
import { type TemplateMessage, withText } from "./templateMessages.js";
import { recogniseToolFormat } from "./toolCalls/toolCalls.js";

/** How a family has tools, calls and what tools answer written in its messages. */
interface ToolWriting {
  isFor(template: ChatTemplate): boolean;
  /** A call in the text of the message that makes it, of `calls`. */
  calls: string;
  /** `messages` with the functions that may be called. */
  offer(messages: readonly TemplateMessage[], functions: unknown[]): TemplateMessage[];
  /** What tools answered, one after the other. */
  answer(contents: readonly string[]): TemplateMessage[];
}

const JSON_CALL = "{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}";
const PYTHON_LIST =
  "[{% for call in calls %}{{ ', ' if not loop.first }}{{ call.function.name }}({% for key, value in call.function.arguments.items() %}" +
  "{{ ', ' if not loop.first }}{{ key }}={{ ([value] | string)[1:-1] }}{% endfor %}){% endfor %}]";
const JSON_LIST = `[{% for call in calls %}{{ ', ' if not loop.first }}${JSON_CALL}{% endfor %}]`;

const WRITINGS: readonly ToolWriting[] = [
  {
    // Gemma 1 to 3: https://ai.google.dev/gemma/docs/capabilities/function-calling
    isFor: (template) =>
      template.source.includes("<start_of_turn>") && !template.mentions("tools") && !template.mentions("tool_calls"),
    calls: PYTHON_LIST,
    offer(messages, functions) {
      const first = messages.findIndex(({ role }) => role === "user");
      const offer = `${GEMMA_OFFER}\n${written("{{ functions | tojson(indent=2) }}", { functions })}\n\n`;
      return messages.map((message, index) =>
        index === first ? { ...message, content: after(offer, message) } : message,
      );
    },
    answer: (contents) => {
      const blocks = contents.map((content) => `\`\`\`tool_output\n${content}\n\`\`\``);
      return [{ role: "user", content: blocks.join("\n") }];
    },
  },
  {
    // Phi-4-mini: the system message has its tools as JSON; https://huggingface.co/microsoft/Phi-4-mini-instruct
    isFor: (template) => template.source.includes("<|/tool|>") && !template.mentions("tool_calls"),
    calls: `<|tool_call|>${JSON_LIST}<|/tool_call|>`,
    offer(messages, functions) {
      const tools = written("{{ functions | tojson }}", { functions });
      const isFirst = messages[0]?.role === "system";
      const system = isFirst ? messages[0]! : { role: "system", content: PHI_SYSTEM };
      return [{ ...system, tools }, ...messages.slice(isFirst ? 1 : 0)];
    },
    answer: (contents) => contents.map((content) => ({ role: "tool_response", content })),
  },
  {
    // Granite 3 shows tools, and has a role of its own for what they answered.
    isFor: (template) =>
      template.source.includes("<|start_of_role|>") &&
      template.source.includes("<|tool_call|>") &&
      !template.mentions("tool_calls"),
    calls: `<|tool_call|>${JSON_LIST}`,
    offer: (messages) => [...messages],
    answer: (contents) => contents.map((content) => ({ role: "tool_response", content })),
  },
  {
    // LFM2 shows tools and what they answered, but no calls.
    isFor: (template) => recogniseToolFormat(template.source) === "lfm2" && !template.mentions("tool_calls"),
    calls: `<|tool_call_start|>${PYTHON_LIST}<|tool_call_end|>`,
    offer: (messages) => [...messages],
    answer: (contents) => contents.map((content) => ({ role: "tool", content })),
  },
  {
    // SmolLM3 shows tools and what they answered, but no calls.
    isFor: (template) => template.mentions("xml_tools") && !template.mentions("tool_calls"),
    calls:
      "{% for call in calls %}{{ '\\n' if not loop.first }}<tool_call>\n{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}" +
      "\n</tool_call>{% endfor %}",
    offer: (messages) => [...messages],
    answer: (contents) => contents.map((content) => ({ role: "tool", content })),
  },
];

const GEMMA_OFFER = `You have access to functions. If you decide to invoke any of the function(s), you MUST put it in the format of
[func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)]
You SHOULD NOT include any other text in the response if you call a function`;

const PHI_SYSTEM = "You are a helpful assistant with some tools.";

/** The messages as they are to reach a template, with `tools` in them where the template itself shows none. */
export function withUntaughtTools(
  template: ChatTemplate,
  messages: TemplateMessage[],
  tools: readonly unknown[] | null,
): TemplateMessage[] {
  const usesTools =
    tools !== null || messages.some(({ role, tool_calls }) => role === "tool" || tool_calls !== undefined);
  const writing = usesTools ? WRITINGS.find(({ isFor }) => isFor(template)) : undefined;
  if (writing === undefined) return messages;
  const told: TemplateMessage[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    if (message.role !== "tool") {
      told.push(withCallsAsText(writing, message));
      continue;
    }
    const from = at;
    while (messages[at + 1]?.role === "tool") at++;
    told.push(...writing.answer(messages.slice(from, at + 1).map(({ content }) => String(content ?? ""))));
  }
  if (tools === null) return told;
  const functions = tools.map((tool) => (tool as { function?: unknown }).function ?? tool);
  return writing.offer(told, functions);
}

function withCallsAsText(writing: ToolWriting, { tool_calls: calls, ...message }: TemplateMessage): TemplateMessage {
  if (calls === undefined) return message;
  const text = written(writing.calls, { calls });
  return { ...message, content: message.content === null ? text : before(message, text) };
}

const written = (source: string, variables: Record<string, unknown>): string =>
  compileChatTemplate(source).render(variables as Record<string, TemplateInput>);

// In the part beside it: templates trim each part.
function after(text: string, { content }: TemplateMessage): TemplateMessage["content"] {
  if (!Array.isArray(content)) return text + (content ?? "");
  const [first, ...rest] = content;
  return [first === undefined ? { type: "text", text } : withText(first, (own) => text + own), ...rest];
}

function before({ content }: TemplateMessage, text: string): TemplateMessage["content"] {
  if (!Array.isArray(content)) return content === "" ? text : `${content}\n${text}`;
  const last = content.at(-1);
  const part = last === undefined ? { type: "text" as const, text } : withText(last, (own) => `${own}\n${text}`);
  return [...content.slice(0, -1), part];
}
