import type { Draw } from "../draw.js";
import type { Question, Skill } from "../question.js";
import { categories, categoryNames } from "../words.js";

const quoted = (items: readonly string[]): string => `[${items.map((item) => `"${item}"`).join(", ")}]`;

function wordList(ask: string, elements: readonly string[]): Question {
  const value = elements.join(", ");
  return {
    ask,
    value,
    elements,
    json: quoted(elements),
    styles: [
      { text: value, share: 0.85 },
      { text: `The list is ${value}.`, share: 0.15 },
    ],
  };
}

function numberList(ask: string, numbers: readonly number[]): Question {
  const value = numbers.join(", ");
  return {
    ask,
    value,
    elements: numbers.map(String),
    json: `[${value}]`,
    styles: [
      { text: value, share: 0.85 },
      { text: `The list is ${value}.`, share: 0.15 },
    ],
  };
}

function sortNumbers(draw: Draw): Question {
  const numbers = draw.item(
    () => {
      const found = new Set<number>();
      const count = draw.integer(3, 5);
      while (found.size < count) found.add(draw.smallNumber());
      return [...found];
    },
    (made) => `sort ${made.join(" ")}`,
  );
  const down = draw.chance(0.2);
  const ordered = [...numbers].sort((a, b) => (down ? b - a : a - b));
  return numberList(
    down
      ? `Sort ${numbers.join(", ")} from largest to smallest.`
      : draw.pick([
          `Sort ${numbers.join(", ")}.`,
          `Sort these numbers: ${numbers.join(", ")}`,
          `Put ${numbers.join(", ")} in order.`,
        ]),
    ordered,
  );
}

function sortWords(draw: Draw): Question {
  const items = draw.distinctWords(draw.integer(2, 4), 3, 6);
  return wordList(
    draw.pick([
      `Sort these words: ${items.join(", ")}`,
      `Sort ${items.join(", ")}.`,
      `Put ${items.join(", ")} in alphabetical order.`,
    ]),
    [...items].sort(),
  );
}

function extreme(draw: Draw): Question {
  const numbers = draw.item(
    () => {
      const found = new Set<number>();
      const count = draw.integer(3, 5);
      while (found.size < count) found.add(draw.smallNumber());
      return [...found];
    },
    (made) => `most ${made.join(" ")}`,
  );
  const big = draw.chance(0.6);
  const value = String(big ? Math.max(...numbers) : Math.min(...numbers));
  return {
    ask: `What is the ${big ? draw.pick(["largest", "biggest"]) : "smallest"} of ${numbers.join(", ")}?`,
    value,
    json: value,
    sentences: [`The ${big ? "largest" : "smallest"} is ${value}.`],
  };
}

function reverseList(draw: Draw): Question {
  const items = draw.distinctWords(draw.integer(2, 4), 3, 6);
  return wordList(
    draw.pick([`Reverse the list ${items.join(", ")}.`, `Reverse this list: ${items.join(", ")}`]),
    [...items].reverse(),
  );
}

function countWords(draw: Draw): Question {
  const items = draw.distinctWords(draw.integer(1, 6), 2, 6);
  const value = String(items.length);
  return {
    ask: draw.pick([`How many words are in "${items.join(" ")}"?`, `Count the words in "${items.join(" ")}".`]),
    value,
    json: value,
    sentences: [`There ${items.length === 1 ? "is 1 word" : `are ${value} words`}.`],
    working: items.map((item, i) => `${i + 1} ${item}`).join(", "),
  };
}

function wordAt(draw: Draw): Question {
  const items = draw.distinctWords(draw.integer(2, 5), 2, 6);
  const last = draw.chance(0.3);
  const index = last ? items.length - 1 : draw.integer(0, items.length - 1);
  const which = last ? "last" : ["first", "second", "third", "fourth", "fifth"][index]!;
  return {
    ask: `What is the ${which} word in "${items.join(" ")}"?`,
    value: items[index]!,
    sentences: [`The ${which} word is "${items[index]}".`],
  };
}

function nameSome(draw: Draw): Question {
  const category = draw.pick(categoryNames);
  const count = draw.integer(1, 4);
  const article = /^[aeiou]/.test(category) ? "an" : "a";
  const items = draw.shuffled(categories[category]).slice(0, count);
  const known = new Set<string>(categories[category]);
  const number = ["", "one", "two", "three", "four"][count]!;
  const ask =
    count === 1
      ? draw.pick([
          `Name ${article} ${category}.`,
          `Give me ${article} ${category}.`,
          `Tell me ${article} ${category}.`,
        ])
      : draw.pick([`Name ${number} ${category}s.`, `List ${number} ${category}s.`, `Give me ${number} ${category}s.`]);
  const accepts = (text: string): boolean => {
    const found = text
      .toLowerCase()
      .replace(/[^a-z, \n-]/g, "")
      .split(/,|\n-?|^- /)
      .map((item) => item.trim())
      .filter((item) => item !== "");
    return found.length === count && new Set(found).size === count && found.every((item) => known.has(item));
  };
  return {
    ask,
    value: items.join(", "),
    elements: items,
    json: quoted(items),
    styles: [{ text: items.join(", "), share: 1 }],
    accepts,
  };
}

export const listSkills: readonly Skill[] = [
  { name: "sort numbers", share: 4, make: sortNumbers },
  { name: "sort words", share: 2.5, make: sortWords },
  { name: "largest or smallest", share: 2, make: extreme },
  { name: "reverse a list", share: 1.5, make: reverseList },
  { name: "count words", share: 2, make: countWords },
  { name: "word at", share: 2, make: wordAt },
  { name: "name members of a kind", share: 3, make: nameSome },
];
