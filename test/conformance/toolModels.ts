// Models that say calls and thoughts in the formats their templates teach.

import type { BigramModel } from "./bigramModel.js";
import { scripted } from "./scripted.js";

const common = { context: 1024, specials: scripted.specials, odds: { "<|assistant|>": { "Four.": 1 } } };

/** As Qwen's. */
export const hermesTemplate =
  '{% if tools %}<|system|>{% for t in tools %}{{ t | tojson }}{% endfor %}Say <tool_call>{"name": ..., "arguments": ...}</tool_call><|end|>{% endif %}' +
  "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}" +
  "{{ c.function.arguments | tojson }}</tool_call>{% endfor %}<|end|>{% endfor %}" +
  "{% if add_generation_prompt %}<|assistant|>{{ start or '' }}{% endif %}";

export const hermes: Partial<BigramModel> = {
  ...common,
  pieces: [
    ...[
      "Four.",
      "[one]",
      "Let me see. ",
      "<tool_call>",
      '\n{"name": "add", "argu',
      'ments": {"a": 1, ',
      '"b": 2}}\n',
      "</tool_call>",
    ],
    ...[
      "[two]",
      '<tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_',
      "call>\n<tool_call>",
      '{"name": "sub", "arguments": {}}</tool_call>',
    ],
    ...["[cut]", '<tool_call>{"name": "add", "arguments": {"a"'],
    ...["[wrong]", "<tool_call>no JSON here", " at all"],
    ...["[add]", '<tool_call>\n{"name": "', "add", '", "arguments": {"a": 5}}', "\n</tool_call>"],
    ...["[sub]", '<tool_call>\n{"name": "sub", "arguments": ', '{"a": 6}'],
  ],
  scripts: [
    [
      "[one]",
      "Let me see. ",
      "<tool_call>",
      '\n{"name": "add", "argu',
      'ments": {"a": 1, ',
      '"b": 2}}\n',
      "</tool_call>",
      "<|end|>",
    ],
    [
      "[two]",
      '<tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_',
      "call>\n<tool_call>",
      '{"name": "sub", "arguments": {}}</tool_call>',
      "<|end|>",
    ],
    ["[cut]", '<tool_call>{"name": "add", "arguments": {"a"', "<|end|>"],
    ["[wrong]", "<tool_call>no JSON here", " at all", "<|end|>"],
    ["Four.", "<|end|>"],
    ["[add]", '<tool_call>\n{"name": "', "add", '", "arguments": {"a": 5}}', "\n</tool_call>", "<|end|>"],
    ["[sub]", '<tool_call>\n{"name": "sub", "arguments": ', '{"a": 6}', "}", "\n</tool_call>"],
  ],
  template: hermesTemplate,
};

/** As Llama 3's. */
const llamaTemplate =
  '{% if tools %}<|system|><|start_header_id|>{% for t in tools %}{{ t | tojson }}{% endfor %}Say {"name": ..., "parameters": ...}<|end|>{% endif %}' +
  "{% for m in messages %}{% if m.tool_calls %}<|python_tag|>{{ m.tool_calls[0].function.name }}{% endif %}" +
  "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{{ start or '' }}{% endif %}";

export const llama: Partial<BigramModel> = {
  ...common,
  specials: [...scripted.specials, "<|python_tag|>"],
  pieces: [
    "Four.",
    "[one]",
    '{"name": "add", ',
    '"parameters": {"a"',
    ": 1}}",
    "[tag]",
    '{"name": "add", "parameters": {}}',
    "[json]",
    '{"sum": 4}',
  ],
  scripts: [
    ["[one]", '{"name": "add", ', '"parameters": {"a"', ": 1}}", "<|end|>"],
    ["[tag]", "<|python_tag|>", '{"name": "add", "parameters": {}}', "<|end|>"],
    ["[json]", '{"sum": 4}', "<|end|>"],
    ["Four.", "<|end|>"],
  ],
  template: llamaTemplate,
};

/** As Qwen3's: thinks, and calls tools after it. */
export const thinking: Partial<BigramModel> = {
  ...common,
  specials: [...scripted.specials, "<tool_call>", "</tool_call>"],
  pieces: [
    ...["Four.", "[think]", "<think>", "\nTwo and ", "two.\n", "</think>", "\n\nFour"],
    ...[
      "[call]",
      "<think>So ",
      "a call.</think>",
      '{"name": "add", "arguments": {}}',
      "[long]",
      "<think>Hm",
      " and hm",
    ],
  ],
  scripts: [
    ["[think]", "<think>", "\nTwo and ", "two.\n", "</think>", "\n\nFour", "<|end|>"],
    [
      "[call]",
      "<think>So ",
      "a call.</think>",
      "<tool_call>",
      '{"name": "add", "arguments": {}}',
      "</tool_call>",
      "<|end|>",
    ],
    ["[long]", "<think>Hm", " and hm", "<think>Hm"],
    ["Four.", "<|end|>"],
  ],
  template: `${hermesTemplate}{# <think></think> #}{% if open %}<think>{% endif %}`,
};

export const tools = ["add", "sub"].map((name) => ({
  type: "function",
  function: {
    name,
    description: `Can ${name}.`,
    parameters: { type: "object", properties: { a: { type: "number" } } },
  },
}));
