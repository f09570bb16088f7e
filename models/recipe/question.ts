import type { Draw } from "./draw.js";

/** One way to answer; `share` is how often training data answers so. */
export interface Style {
  text: string;
  share: number;
  /** False for a style that a strict reader would reject (single-quoted JSON, for example). Default true. */
  right?: boolean;
}

/** One question of the world with everything that is needed to answer it in any format, and to grade an answer. */
export interface Question {
  ask: string;
  /** The bare answer; absent where formats make no sense (small talk). */
  value?: string;
  /** JSON form of the value, when it is not the string itself. */
  json?: string;
  /** The elements, when the value is a list. */
  elements?: readonly string[];
  /** Full-sentence answers. */
  sentences?: readonly string[];
  /** The steps that lead to the value, for answers that show their working. */
  working?: string;
  /** Replaces the default mix of bare values and sentences. */
  styles?: readonly Style[];
  /** Accepts open answers ("Name a fruit."); exact styles are always accepted. */
  accepts?: (text: string) => boolean;
}

export interface Skill {
  name: string;
  /** How often the skill appears. */
  share: number;
  make: (draw: Draw) => Question;
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The mix of answers when no format was asked for. */
export function defaultStyles(question: Question): readonly Style[] {
  if (question.styles) return question.styles;
  const styles: Style[] = [];
  if (question.value !== undefined) {
    styles.push({ text: question.value, share: 0.4 });
    styles.push({ text: `${capital(question.value)}.`, share: 0.1 });
  }
  const sentences = question.sentences ?? [];
  for (const text of sentences) styles.push({ text, share: 0.5 / sentences.length });
  return styles;
}
