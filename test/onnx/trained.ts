// A model of the embedded base that training has changed by much, and what the engine says with it.

import { Engine } from "../../src/anneal.js";
import type { Model } from "../../src/types/models.js";

export const CONVERSATIONS = [
  [{ role: "user", content: 'Spell "planet" backwards, one word.' }],
  [{ role: "user", content: "What is 3 + 4?" }],
  [
    { role: "system", content: "Answer in one word." },
    { role: "user", content: "Which is larger, 12 or 9?" },
  ],
];

export async function trainedModel(home: string): Promise<{ engine: Engine; model: Model }> {
  const engine = await Engine.open({ home, dtype: "float32" });
  const model = await engine.models.create({ project: "p", name: "m", base_model: "anneal/tiny" });
  const session = await engine.training.open(model);
  for (const word of ["garden", "river"]) {
    const text = `Spell "${word}" backwards, one word.`;
    const { tokens } = await engine.tokens.tokenize({ messages: [{ role: "user", content: text }] });
    await session.forwardBackward([{ tokens, trained: tokens.map(() => 1) }], { loss: "cross_entropy" });
    await session.optimStep({ learningRate: 1e-2 });
  }
  await session.saveState();
  await session.close();
  return { engine, model };
}

export interface Greedy {
  prompt: number[];
  tokens: number[];
  text: string;
}

/** The likeliest tokens after each conversation, as the native engine computes them. */
export async function nativeGreedy(engine: Engine, model: string, maxTokens: number): Promise<Greedy[]> {
  return Promise.all(
    CONVERSATIONS.map(async (messages) => {
      const reply = await engine.chat.completions.create({
        model,
        messages,
        temperature: 0,
        max_tokens: maxTokens,
        return_token_ids: true,
      });
      const [choice] = reply.choices;
      return { prompt: reply.prompt_token_ids!, tokens: choice!.token_ids!, text: choice!.message.content ?? "" };
    }),
  );
}
