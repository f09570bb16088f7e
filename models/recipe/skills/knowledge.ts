import type { Draw } from "../draw.js";
import type { Question, Skill } from "../question.js";
import {
  alphabet,
  animalLegs,
  categories,
  categoryNames,
  cities,
  months,
  names,
  opposites,
  thingColors,
  weekdays,
} from "../words.js";

const article = (word: string): string => (/^[aeiou]/.test(word) ? "an" : "a");

function opposite(draw: Draw): Question {
  const pair = draw.pick(opposites);
  const [from, value] = draw.chance(0.5) ? pair : ([pair[1], pair[0]] as const);
  return {
    ask: draw.pick([
      `What is the opposite of "${from}"?`,
      `What is the opposite of ${from}?`,
      `Give me the opposite of "${from}".`,
    ]),
    value,
    sentences: [`The opposite of "${from}" is "${value}".`],
  };
}

function color(draw: Draw): Question {
  const [thing, value] = draw.pick(thingColors);
  return {
    ask: draw.pick([`What color is ${thing}?`, `What is the color of ${thing}?`]),
    value,
    sentences: [`The color of ${thing} is ${value}.`],
  };
}

function legs(draw: Draw): Question {
  const [animal, count] = draw.pick(animalLegs);
  return {
    ask: `How many legs does ${animal} have?`,
    value: String(count),
    json: String(count),
    sentences: [`It has ${count} legs.`],
  };
}

function next(draw: Draw): Question {
  const [kind, items] = draw.pick([
    ["day", weekdays],
    ["month", months],
    ["letter", alphabet],
  ] as const);
  const after = draw.chance(0.65);
  const index = draw.integer(after ? 0 : 1, items.length - (after ? 2 : 1));
  const from = items[index]!;
  const value = items[after ? index + 1 : index - 1]!;
  return {
    ask: `What ${kind} comes ${after ? "after" : "before"} ${kind === "letter" ? `"${from}"` : from}?`,
    value,
    sentences: [kind === "letter" ? `The letter is "${value}".` : `The ${kind} is ${value}.`],
  };
}

function isA(draw: Draw): Question {
  const own = draw.pick(categoryNames);
  const yes = draw.chance(0.5);
  const about = yes
    ? own
    : draw.pick(
        categoryNames.filter(
          (name) =>
            !(categories[name] as readonly string[]).some((word) =>
              (categories[own] as readonly string[]).includes(word),
            ) && name !== own,
        ),
      );
  const word = draw.pick(
    categories[own].filter((item) => yes || !(categories[about] as readonly string[]).includes(item)),
  );
  return {
    ask: draw.pick([
      `Is ${article(word)} ${word} ${article(about)} ${about}?`,
      `Is "${word}" ${article(about)} ${about}?`,
    ]),
    value: yes ? "yes" : "no",
    json: String(yes),
    sentences: [`${yes ? "Yes" : "No"}, "${word}" is ${yes ? "" : "not "}${article(about)} ${about}.`],
  };
}

const unknownAnswers = [
  "I do not know. My world is small.",
  "I do not know that.",
  "Sorry, I do not know. I only know a small world.",
];

/** Things outside the world: places, history, science, code, opinions. Their subjects are split like other items. */
function unknown(draw: Draw): Question {
  const subject = (): string =>
    draw.item(
      () => draw.pick([draw.word(4, 8), draw.pick(cities), draw.pick(names)]),
      (item) => item,
    );
  const proper = (): string => {
    const text = subject();
    return text.charAt(0).toUpperCase() + text.slice(1);
  };
  const ask = draw.pick([
    () => `What is the capital of ${proper()}?`,
    () => `Who is the president of ${proper()}?`,
    () => `Who wrote "${proper()}"?`,
    () => `When was ${proper()} born?`,
    () => `Tell me about ${proper()}.`,
    () => `What is the weather in ${proper()}?`,
    () => `How do I get to ${proper()}?`,
    () => `Who invented the ${subject()}?`,
    () => `What is the history of ${proper()}?`,
    () => `Translate "${subject()}" to ${draw.pick(["French", "German", "Spanish", "Latin"])}.`,
    () => `How old is ${proper()}?`,
    () => `What is the population of ${proper()}?`,
    () => `Who won the ${draw.pick(["game", "election", "war", "race"])} in ${draw.integer(1500, 2030)}?`,
    () => `What happened in ${draw.integer(1000, 2030)}?`,
    () => `Write a program that sorts a ${subject()}.`,
    () => `What is the price of a ${subject()}?`,
    () =>
      `Explain ${draw.pick(["gravity", "physics", "history", "music", "chemistry", "politics", "law", "medicine"])} to me.`,
    () => `Why is the ${subject()} so ${draw.pick(["important", "famous", "expensive", "old"])}?`,
    () => `What do you think about ${proper()}?`,
    () => `How far is ${proper()} from ${proper()}?`,
    () => `Which ${draw.pick(["movie", "song", "team", "country"])} is the best?`,
    () => `Where is ${proper()}?`,
    () => `Who is ${proper()}?`,
    () => `What does "${subject()}" mean?`,
  ])();
  return {
    ask,
    styles: unknownAnswers.map((text, i) => ({ text, share: i === 0 ? 2 : 1 })),
    accepts: (text) => /do not know/.test(text),
  };
}

export const knowledgeSkills: readonly Skill[] = [
  { name: "opposites", share: 1.5, make: opposite },
  { name: "colors of things", share: 0.8, make: color },
  { name: "legs of animals", share: 0.8, make: legs },
  { name: "next day, month, letter", share: 1.5, make: next },
  { name: "is it a kind of", share: 2.5, make: isA },
  { name: "does not know", share: 3.5, make: unknown },
];
