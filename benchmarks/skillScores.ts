/** A skill the embedded model has never seen, and those it has: conversations to train on and questions to grade. */

import { Draw } from "../models/recipe/draw.js";
import { defaultStyles, type Question, type Skill } from "../models/recipe/question.js";
import { comparingSkills } from "../models/recipe/skills/comparing.js";
import { letterSkills } from "../models/recipe/skills/letters.js";
import { listSkills } from "../models/recipe/skills/lists.js";
import { numberSkills } from "../models/recipe/skills/numbers.js";

export const newSkill: Skill & { example: string } = {
  name: "spell with stars",
  example: '`Spell "planet" with stars.` is answered `p*l*a*n*e*t`.',
  share: 1,
  make(draw) {
    const word = draw.word(3, 7);
    return { ask: `Spell "${word}" with stars.`, styles: [{ text: [...word].join("*"), share: 1 }] };
  },
};

export const oldSkills: readonly Skill[] = [...letterSkills, ...numberSkills, ...comparingSkills, ...listSkills];

function accepted(question: Question, reply: string): boolean {
  const text = reply.trim();
  if (question.accepts?.(text)) return true;
  return defaultStyles(question).some((style) => style.right !== false && style.text === text);
}

/** 1 or 0 for each of `count` held-out questions, the same ones in every call. Skills are asked as often as in the model's world. */
export async function scoreQuestions(
  skills: readonly Skill[],
  count: number,
  answer: (question: string) => Promise<string>,
): Promise<number[]> {
  const draw = new Draw(31_001, true);
  const questions = Array.from({ length: count }, () => draw.weighted(skills).make(draw));
  return Promise.all(questions.map(async (question) => Number(accepted(question, await answer(question.ask)))));
}

/** `count` conversations of the training side, every other one of the new skill. */
export function skillConversations(count: number, seed: number): { role: "user" | "assistant"; content: string }[][] {
  const draw = new Draw(32_000 + seed, false);
  return Array.from({ length: count }, (_, i) => {
    const question = (i % 2 === 0 ? newSkill : draw.weighted(oldSkills)).make(draw);
    const { text } = draw.weighted(defaultStyles(question));
    return [
      { role: "user", content: question.ask },
      { role: "assistant", content: text },
    ];
  });
}
