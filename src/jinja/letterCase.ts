// Upper, lower and title case, and what a text consists of.

import { charactersOf } from "./values.js";

export function capitalized(text: string): string {
  const [first, ...rest] = charactersOf(text);
  return first === undefined ? "" : first.toUpperCase() + rest.join("").toLowerCase();
}

const LETTERS = /\p{L}+/gu;

/** `str.title`: every run of letters capitalised. */
export function titled(text: string): string {
  return text.replace(LETTERS, capitalized);
}

export function caseSwapped(text: string): string {
  const swap = (character: string) =>
    character === character.toLowerCase() ? character.toUpperCase() : character.toLowerCase();
  return charactersOf(text).map(swap).join("");
}

/** Whether there is a letter with case and none of the other case. */
export function isAllLower(text: string): boolean {
  return /\p{Ll}/u.test(text) && !/[\p{Lu}\p{Lt}]/u.test(text);
}

export function isAllUpper(text: string): boolean {
  return /\p{Lu}/u.test(text) && !/[\p{Ll}\p{Lt}]/u.test(text);
}

export function isTitled(text: string): boolean {
  return /\p{Lu}/u.test(text) && text === titled(text);
}
