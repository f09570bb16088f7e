import { type Conversation, renderCall, spacedJson } from "./conversation.js";

export const specials = [
  "<|endoftext|>",
  "<|im_start|>",
  "<|im_end|>",
  "<think>",
  "</think>",
  "<tool_call>",
  "</tool_call>",
] as const;

/** A stretch of a rendered conversation; the model is trained to write the stretches marked `assistant`. */
export interface Stretch {
  text: string;
  assistant: boolean;
}

const callHint = '\n</tools>\n\nTo call a tool, write <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>';

/** The conversation as the chat template renders it. Stretches begin and end at special tokens or line ends. */
export function render(conversation: Conversation): Stretch[] {
  const out: Stretch[] = [];
  const add = (text: string, assistant = false): void => void out.push({ text, assistant });
  const { tools, messages } = conversation;
  const first = messages[0];
  if (tools.length > 0) {
    const system = first?.role === "system" ? `${first.content}\n\n` : "";
    add(
      `<|im_start|>system\n${system}# Tools\n\n<tools>${tools.map((tool) => `\n${spacedJson(tool)}`).join("")}${callHint}<|im_end|>\n`,
    );
  }
  messages.forEach((message, i) => {
    if (message.role === "assistant") {
      add("<|im_start|>assistant\n");
      add(`${message.toolCall ? renderCall(message.toolCall) : message.content}<|im_end|>`, true);
      add("\n");
    } else if (message.role === "tool") {
      add(`<|im_start|>user\n<tool_response>\n${message.content}\n</tool_response><|im_end|>\n`);
    } else if (!(i === 0 && message.role === "system" && tools.length > 0)) {
      add(`<|im_start|>${message.role}\n${message.content}<|im_end|>\n`);
    }
  });
  return out;
}

/** The same as `render`, for any messages a client may send, in the language of chat templates. */
export const chatTemplate = `{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- '# Tools\\n\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools>\\n\\nTo call a tool, write <tool_call>\\n{"name": ..., "arguments": {...}}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'system' and loop.first and tools %}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.reasoning_content %}
            {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
        {%- endif %}
        {%- if message.content %}
            {{- message.content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if not loop.first or message.content %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
`;
