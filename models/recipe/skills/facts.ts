import type { Draw } from "../draw.js";
import { capital } from "../question.js";
import { categories, cities, names } from "../words.js";

/** Something a user says about themselves and may ask for later in the conversation. */
export interface Fact {
  tell: string;
  reply: string;
  ask: string;
  value: string;
  sentence: string;
  /** What to say when it was never told. */
  untold: string;
}

const kinds = ["name", "city", "animal", "color", "number", "food", "thing", "friend", "code", "age"] as const;

export function drawFacts(draw: Draw, count: number): Fact[] {
  return draw
    .shuffled(kinds)
    .slice(0, count)
    .map((kind) => make(draw, kind));
}

function make(draw: Draw, kind: (typeof kinds)[number]): Fact {
  const properName = (): string =>
    draw.item(
      () => (draw.chance(0.5) ? draw.pick(names) : capital(draw.word(3, 7))),
      (name) => name,
    );
  switch (kind) {
    case "name": {
      const value = properName();
      return {
        tell: draw.pick([`My name is ${value}.`, `I am ${value}.`, `Call me ${value}.`, `Hi, I am ${value}.`]),
        reply: `Nice to meet you, ${value}.`,
        ask: draw.pick(["What is my name?", "Who am I?", "Do you remember my name?"]),
        value,
        sentence: `Your name is ${value}.`,
        untold: "You have not told me your name.",
      };
    }
    case "city": {
      const value = draw.item(
        () => draw.pick(cities),
        (city) => city,
      );
      return {
        tell: draw.pick([`I live in ${value}.`, `My city is ${value}.`]),
        reply: `I will remember that you live in ${value}.`,
        ask: draw.pick(["Where do I live?", "Which city do I live in?"]),
        value,
        sentence: `You live in ${value}.`,
        untold: "You have not told me where you live.",
      };
    }
    case "animal": {
      const animal = draw.pick(["dog", "cat", "horse", "bird", "fish"]);
      const value = properName();
      return {
        tell: draw.pick([`My ${animal} is called ${value}.`, `I have a ${animal} called ${value}.`]),
        reply: `${value} is a nice name for a ${animal}.`,
        ask: `What is my ${animal} called?`,
        value,
        sentence: `Your ${animal} is called ${value}.`,
        untold: `You have not told me what your ${animal} is called.`,
      };
    }
    case "color": {
      const value = draw.pick(categories.color);
      return {
        tell: draw.pick([`My favorite color is ${value}.`, `I like the color ${value}.`]),
        reply: `I will remember ${value}.`,
        ask: "What is my favorite color?",
        value,
        sentence: `Your favorite color is ${value}.`,
        untold: "You have not told me your favorite color.",
      };
    }
    case "number": {
      const value = String(draw.integer(0, 999));
      return {
        tell: draw.pick([`My number is ${value}.`, `My lucky number is ${value}.`]),
        reply: `I will remember ${value}.`,
        ask: "What is my number?",
        value,
        sentence: `Your number is ${value}.`,
        untold: "You have not told me your number.",
      };
    }
    case "food": {
      const value = draw.pick(categories.food);
      return {
        tell: draw.pick([`I like to eat ${value}.`, `My favorite food is ${value}.`]),
        reply: `I will remember that you like ${value}.`,
        ask: draw.pick(["What do I like to eat?", "What is my favorite food?"]),
        value,
        sentence: `You like ${value}.`,
        untold: "You have not told me what you like to eat.",
      };
    }
    case "thing": {
      const value = draw.word(3, 7);
      return {
        tell: draw.pick([
          `The secret word is ${value}.`,
          `Remember the word "${value}".`,
          `The password is "${value}".`,
        ]),
        reply: "I will remember the word.",
        ask: draw.pick(["What is the word?", "Which word did I tell you?", "What was the word?"]),
        value,
        sentence: `The word is "${value}".`,
        untold: "You have not told me a word.",
      };
    }
    case "friend": {
      const value = properName();
      const who = draw.pick(["friend", "brother", "sister", "mother", "father", "teacher"]);
      return {
        tell: `My ${who} is called ${value}.`,
        reply: `I will remember ${value}.`,
        ask: `What is my ${who} called?`,
        value,
        sentence: `Your ${who} is called ${value}.`,
        untold: `You have not told me what your ${who} is called.`,
      };
    }
    case "code": {
      const value = String(draw.integer(1000, 9999));
      return {
        tell: draw.pick([`The code is ${value}.`, `Remember the code ${value}.`]),
        reply: "I will remember the code.",
        ask: draw.pick(["What is the code?", "What was the code?"]),
        value,
        sentence: `The code is ${value}.`,
        untold: "You have not told me a code.",
      };
    }
    case "age": {
      const value = String(draw.integer(5, 99));
      return {
        tell: `I am ${value} years old.`,
        reply: `I will remember that you are ${value}.`,
        ask: "How old am I?",
        value,
        sentence: `You are ${value} years old.`,
        untold: "You have not told me how old you are.",
      };
    }
  }
}
