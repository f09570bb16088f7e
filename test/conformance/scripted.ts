// The model that most of these tests talk to: what it says is chosen by `chat_template_kwargs.start`.

import { type BigramModel, writeBigramModel } from "./bigramModel.js";

/** The usual turns; a reply begins with the text of `start`. */
export const turns =
  "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}" +
  "{% if add_generation_prompt %}<|assistant|>{{ start or '' }}{% endif %}";

export const scripted: BigramModel = {
  specials: ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|bos|>", "<|stop|>", "<|mark|>"],
  pieces: [
    ...["[words]", "One", " two", " three", " four", " five"],
    ...["[loop]", "tick", "tock"],
    ...["[dice]", "A", "B", "C", "D"],
    ...["[mark]", "before", "after"],
    ...["[halt]", "halting"],
    ...["[split]", "ab", "cd", "ef"],
    ...["[count]", "x"],
  ],
  scripts: [
    ["[words]", "One", " two", " three", " four", " five", "<|end|>"],
    ["[loop]", "tick", "tock", "tick"],
    ["[mark]", "before", "<|mark|>", "after", "<|end|>"],
    ["[halt]", "halting", "<|stop|>", "<|end|>"],
    ["[split]", "ab", "cd", "ef", "<|end|>"],
  ],
  odds: {
    "<|assistant|>": { One: 1 },
    "[dice]": { A: 0.5, B: 0.3, C: 0.15, D: 0.05 },
    // Each letter ends a reply but for a little.
    A: { "<|end|>": 0.9, B: 0.1 },
    B: { "<|end|>": 0.8, A: 0.2 },
    C: { "<|end|>": 1 },
    D: { "<|end|>": 1 },
    "[count]": { x: 1 },
    x: { x: 0.75, "<|end|>": 0.25 },
  },
  template: turns,
  generation: { eos_token_id: [256, 261] },
  bos: "<|bos|>",
};

export const start = (text: string) => ({ chat_template_kwargs: { start: text } });

/** Writes the scripted model, or one that differs from it; for the `models` of an engine. */
export async function scriptedModel(id: string, changes: Partial<BigramModel> = {}) {
  const { path, ids } = await writeBigramModel({ ...scripted, ...changes });
  return { model: { id, path }, ids };
}
