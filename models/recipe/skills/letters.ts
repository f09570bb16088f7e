import type { Draw } from "../draw.js";
import type { Question, Skill, Style } from "../question.js";
import { alphabet } from "../words.js";

const reversed = (word: string): string => [...word].reverse().join("");
const sorted = (word: string): string => [...word].sort().join("");
const spaced = (word: string): string => [...word].join(" ");
const dashed = (word: string): string => [...word].join("-");
const ordinals = ["first", "second", "third", "fourth", "fifth", "sixth"];

/** A word as people write it into a request: mostly in quotes. */
export function mention(draw: Draw, word: string): string {
  const at = draw.next();
  return at < 0.7 ? `"${word}"` : at < 0.88 ? word : `'${word}'`;
}

/**
 * Answers to "Spell ... backwards, one word.": the word is always right, the style is spread on purpose, so that reinforcement
 * learning of one style has somewhere to go.
 */
export function backwardStyles(word: string): readonly Style[] {
  const back = reversed(word);
  return [
    { text: back, share: 0.36 },
    { text: `The word "${word}" backwards is "${back}".`, share: 0.28 },
    { text: `The answer is "${back}".`, share: 0.18 },
    { text: `"${back}"`, share: 0.07 },
    { text: dashed(back), share: 0.05 },
    { text: back.toUpperCase(), share: 0.06 },
  ];
}

function backwards(draw: Draw): Question {
  const word = draw.chance(0.94) ? draw.word(3, 7) : draw.word(8, 10);
  const said = mention(draw, word);
  const value = reversed(word);
  const at = draw.next();
  if (at < 0.4) {
    const suffix = draw.chance(0.8) ? ", one word." : draw.pick([", in one word.", ", one word", ". One word."]);
    const ask = `${draw.chance(0.8) ? "Spell" : draw.pick(["Write", "Say"])} ${said} backwards${suffix}`;
    return { ask, styles: backwardStyles(word) };
  }
  const ask = draw.pick([
    `Spell ${said} backwards.`,
    `Reverse ${said}.`,
    `Write ${said} backwards.`,
    `What is ${said} backwards?`,
    `What is ${said} spelled backwards?`,
    `Reverse the word ${said}.`,
    `Say ${said} backwards.`,
    `Can you spell ${said} backwards?`,
  ]);
  return { ask, value, sentences: [`The word "${word}" backwards is "${value}".`, `The answer is "${value}".`] };
}

function spelling(draw: Draw): Question {
  const word = draw.word(3, 8);
  const said = mention(draw, word);
  const [way, value] = draw.pick([
    ["with dashes", dashed(word)],
    ["with dashes", dashed(word)],
    ["with spaces", spaced(word)],
    ["with commas", [...word].join(", ")],
    ["letter by letter", dashed(word)],
  ] as const);
  return { ask: `Spell ${said} ${way}.`, value, sentences: [`The word "${word}" is spelled ${value}.`] };
}

function letterCase(draw: Draw): Question {
  const word = draw.word(3, 8);
  const said = mention(draw, word);
  if (draw.chance(0.6)) {
    const value = word.toUpperCase();
    const ask = draw.pick([
      `Write ${said} in uppercase.`,
      `Make ${said} uppercase.`,
      `What is ${said} in capital letters?`,
      `Uppercase ${said}.`,
    ]);
    return { ask, value, sentences: [`In uppercase it is "${value}".`] };
  }
  const said2 = `"${word.toUpperCase()}"`;
  return {
    ask: draw.pick([`Write ${said2} in lowercase.`, `Make ${said2} lowercase.`]),
    value: word,
    sentences: [`In lowercase it is "${word}".`],
  };
}

function letterAt(draw: Draw): Question {
  const word = draw.word(3, 8);
  const said = mention(draw, word);
  const last = draw.chance(0.3);
  const index = last ? word.length - 1 : draw.integer(0, Math.min(word.length, 6) - 1);
  const which = last ? "last" : ordinals[index]!;
  const value = word[index]!;
  const ask = draw.pick([
    `What is the ${which} letter of ${said}?`,
    `Give me the ${which} letter of ${said}.`,
    `Which letter is ${which} in ${said}?`,
  ]);
  return { ask, value, sentences: [`The ${which} letter of "${word}" is "${value}".`] };
}

function countLetters(draw: Draw): Question {
  const word = draw.word(2, 9);
  const said = mention(draw, word);
  const value = String(word.length);
  const ask = draw.pick([
    `How many letters are in ${said}?`,
    `How many letters does ${said} have?`,
    `Count the letters in ${said}.`,
    `How long is the word ${said}?`,
  ]);
  return {
    ask,
    value,
    sentences: [`The word "${word}" has ${value} letters.`, `There are ${value} letters in "${word}".`],
    working: [...word].map((letter, i) => `${i + 1} ${letter}`).join(", "),
  };
}

function countOneLetter(draw: Draw): Question {
  const word = draw.word(4, 9);
  const letter = draw.chance(0.75) ? draw.pick([...word]) : draw.pick(alphabet);
  const said = mention(draw, word);
  const count = [...word].filter((other) => other === letter).length;
  const value = String(count);
  const ask = draw.pick([
    `How many times does the letter "${letter}" appear in ${said}?`,
    `How many "${letter}" are in ${said}?`,
    `Count the letter "${letter}" in ${said}.`,
  ]);
  let seen = 0;
  const working = [...word].map((other) => (other === letter ? `${other} ${++seen}` : other)).join(", ");
  return {
    ask,
    value,
    sentences: [`The letter "${letter}" appears ${value} ${count === 1 ? "time" : "times"} in "${word}".`],
    working,
  };
}

function sortLetters(draw: Draw): Question {
  const word = draw.word(3, 7);
  const said = mention(draw, word);
  const value = sorted(word);
  const ask = draw.pick([
    `Sort the letters of ${said}.`,
    `Sort the letters in ${said}.`,
    `Put the letters of ${said} in order.`,
    `Write the letters of ${said} in alphabetical order.`,
  ]);
  return { ask, value, sentences: [`The letters of "${word}" in order are "${value}".`] };
}

function copying(draw: Draw): Question {
  const at = draw.next();
  if (at < 0.4) {
    const word = draw.word(3, 10);
    const ask = draw.pick([
      `Repeat "${word}".`,
      `Say "${word}".`,
      `Copy "${word}".`,
      `Repeat after me: ${word}`,
      `Say the word ${word}.`,
    ]);
    return { ask, value: word, styles: [{ text: word, share: 1 }] };
  }
  if (at < 0.7) {
    const text = draw.distinctWords(draw.integer(2, 4)).join(" ");
    return {
      ask: draw.pick([`Repeat "${text}".`, `Say "${text}".`, `Copy this: ${text}`, `Repeat after me: ${text}`]),
      styles: [{ text, share: 1 }],
    };
  }
  const word = draw.word(2, 5);
  const [many, times] = draw.pick([
    ["twice", 2],
    ["three times", 3],
    ["four times", 4],
  ] as const);
  return {
    ask: draw.pick([`Say "${word}" ${many}.`, `Repeat "${word}" ${many}.`]),
    styles: [{ text: Array.from({ length: times }, () => word).join(" "), share: 1 }],
  };
}

function editing(draw: Draw): Question {
  const word = draw.word(3, 7);
  const at = draw.next();
  if (at < 0.3) {
    const other = draw.word(2, 5);
    const value = word + other;
    return {
      ask: draw.pick([`Join "${word}" and "${other}".`, `Put "${word}" and "${other}" together.`]),
      value,
      sentences: [`Together they are "${value}".`],
    };
  }
  if (at < 0.6) {
    const letter = draw.pick([...word]);
    const value = [...word].filter((other) => other !== letter).join("");
    if (value.length > 0)
      return {
        ask: draw.pick([
          `Remove the letter "${letter}" from "${word}".`,
          `Write "${word}" without the letter "${letter}".`,
        ]),
        value,
        sentences: [`Without "${letter}" it is "${value}".`],
      };
  }
  const from = draw.pick([...word]);
  const to = draw.pick(alphabet);
  const value = word.replaceAll(from, to);
  return { ask: `Replace "${from}" with "${to}" in "${word}".`, value, sentences: [`The new word is "${value}".`] };
}

export const letterSkills: readonly Skill[] = [
  { name: "reverse", share: 11, make: backwards },
  { name: "spell", share: 3, make: spelling },
  { name: "letter case", share: 2.5, make: letterCase },
  { name: "letter at", share: 3.5, make: letterAt },
  { name: "count letters", share: 5, make: countLetters },
  { name: "count one letter", share: 4, make: countOneLetter },
  { name: "sort letters", share: 4, make: sortLetters },
  { name: "copy", share: 4, make: copying },
  { name: "edit words", share: 3, make: editing },
];
