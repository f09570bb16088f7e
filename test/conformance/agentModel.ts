// A model that an application's agent can talk to: it thinks, calls the functions it is offered, and answers when their outputs are there. What
// it says is written down; which of it, the template decides by the conversation.

import { type BigramModel, writeBigramModel } from "./bigramModel.js";

const ask = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>';

const scripts = [
  ["[hello]", "Good", " day", " to", " you", ".", "<|end|>"],
  ["[call]", "<think>", "Which ", "tool?", "</think>", ask, "<|end|>"],
  [
    "[both]",
    "Both",
    ", then: ",
    `${ask}\n`,
    '<tool_call>\n{"name": "time", "argu',
    'ments": {}}\n</tool_call>',
    "<|end|>",
  ],
  ["[answer]", "It", " is", " cold", " in", " Oslo", ".", "<|end|>"],
  ["[json]", '{"city":', ' "Oslo",', ' "degrees":', " -3}", "<|end|>"],
];

/**
 * A last user message that begins with "both" gets two calls, one that begins with "loop" no end. A conversation about a "report" ends
 * in JSON.
 */
const template =
  "{%- for t in tools or [] %}{{ t.function.name }} <tool_call>{% endfor %}" +
  "{%- for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}" +
  "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}{{ c.function.arguments | tojson }}</tool_call>{% endfor %}<|end|>{% endfor %}" +
  "{%- set last = messages[-1] %}{% set said = (last.content or '') | lower %}" +
  "{%- if add_generation_prompt %}<|assistant|>{% if last.role == 'tool' %}" +
  "{% if 'report' in (messages | map(attribute='content') | join | lower) %}[json]{% else %}[answer]{% endif %}" +
  "{% elif said.startswith('loop') %}[loop]{% elif said.startswith('json') %}[json]" +
  "{% elif tools and said.startswith('both') %}[both]{% elif tools %}[call]{% else %}[hello]{% endif %}{% endif %}";

export const agent: BigramModel = {
  specials: ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>", "<think>", "</think>"],
  pieces: [...new Set([...scripts.flat().filter((text) => !/^<\|?\/?(end|think)/.test(text)), "[loop]", "tick"])],
  scripts: [...scripts, ["[loop]", "tick", "tick"]],
  template,
  generation: { eos_token_id: 256 },
  context: 2048,
};

export async function agentModel(id: string) {
  const { path, ids } = await writeBigramModel(agent);
  return { model: { id, path }, ids };
}
