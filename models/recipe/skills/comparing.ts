import type { Draw } from "../draw.js";
import type { Question, Skill } from "../question.js";
import { alphabet } from "../words.js";
import { mention } from "./letters.js";

const yesNo = (ask: string, yes: boolean, sentence: string): Question => ({
  ask,
  value: yes ? "yes" : "no",
  json: String(yes),
  sentences: [`${yes ? "Yes" : "No"}, ${sentence}`],
});

function numbers(draw: Draw): Question {
  const [a, b] = draw.pair("vs", () => {
    for (;;) {
      const pair = [draw.smallNumber(), draw.smallNumber()] as const;
      if (pair[0] !== pair[1]) return pair;
    }
  });
  const at = draw.next();
  if (at < 0.5) {
    const big = draw.chance(0.6);
    const value = String(big ? Math.max(a, b) : Math.min(a, b));
    const other = String(big ? Math.min(a, b) : Math.max(a, b));
    return {
      ask: big
        ? draw.pick([`Which is bigger, ${a} or ${b}?`, `Which number is larger, ${a} or ${b}?`])
        : `Which is smaller, ${a} or ${b}?`,
      value,
      json: value,
      sentences: [`${value} is ${big ? "bigger" : "smaller"} than ${other}.`],
    };
  }
  const greater = draw.chance(0.5);
  const yes = greater ? a > b : a < b;
  return yesNo(
    `Is ${a} ${greater ? draw.pick(["greater than", "bigger than"]) : draw.pick(["less than", "smaller than"])} ${b}?`,
    yes,
    `${a} is ${yes ? "" : "not "}${greater ? "greater than" : "less than"} ${b}.`,
  );
}

function evenOdd(draw: Draw): Question {
  const n = draw.item(
    () => draw.smallNumber(199),
    (item) => `even ${item}`,
  );
  const even = n % 2 === 0;
  if (draw.chance(0.5)) return yesNo(`Is ${n} even?`, even, `${n} is ${even ? "even" : "odd"}.`);
  return yesNo(`Is ${n} odd?`, !even, `${n} is ${even ? "even" : "odd"}.`);
}

function lengths(draw: Draw): Question {
  for (;;) {
    const [a, b] = draw.distinctWords(2, 2, 8);
    if (a!.length === b!.length) continue;
    const longer = draw.chance(0.6);
    const value = longer === a!.length > b!.length ? a! : b!;
    return {
      ask: draw.pick([
        `Which word is ${longer ? "longer" : "shorter"}, "${a}" or "${b}"?`,
        `Which is ${longer ? "longer" : "shorter"}, "${a}" or "${b}"?`,
      ]),
      value,
      sentences: [`The word "${value}" is ${longer ? "longer" : "shorter"}.`],
    };
  }
}

function alphabetical(draw: Draw): Question {
  const [a, b] = draw.distinctWords(2, 3, 6) as [string, string];
  const value = [a, b].sort()[0]!;
  return {
    ask: draw.pick([
      `Which comes first in the alphabet, "${a}" or "${b}"?`,
      `Which word comes first in the alphabet, "${a}" or "${b}"?`,
    ]),
    value,
    sentences: [`The word "${value}" comes first.`],
  };
}

function aboutWord(draw: Draw): Question {
  const word = draw.word(3, 8);
  const said = mention(draw, word);
  const at = draw.next();
  if (at < 0.45) {
    const letter = draw.chance(0.5) ? draw.pick([...word]) : draw.pick(alphabet);
    const yes = word.includes(letter);
    return yesNo(
      draw.pick([`Does ${said} contain the letter "${letter}"?`, `Is there the letter "${letter}" in ${said}?`]),
      yes,
      `"${word}" ${yes ? "contains" : "does not contain"} "${letter}".`,
    );
  }
  if (at < 0.85) {
    const start = draw.chance(0.5);
    const truth = start ? word[0]! : word[word.length - 1]!;
    const letter = draw.chance(0.5) ? truth : draw.pick(alphabet);
    const yes = letter === truth;
    const verb = start ? "start" : "end";
    return yesNo(
      `Does ${said} ${verb} with "${letter}"?`,
      yes,
      `"${word}" ${yes ? `${verb}s` : `does not ${verb}`} with "${letter}".`,
    );
  }
  const half = word.slice(0, 2);
  const palindrome = draw.chance(0.5) ? half + word[2]! + [...half].reverse().join("") : word;
  const yes = palindrome === [...palindrome].reverse().join("");
  return yesNo(`Is "${palindrome}" a palindrome?`, yes, `"${palindrome}" is ${yes ? "" : "not "}a palindrome.`);
}

export const comparingSkills: readonly Skill[] = [
  { name: "compare numbers", share: 3, make: numbers },
  { name: "even or odd", share: 1.5, make: evenOdd },
  { name: "compare lengths", share: 2, make: lengths },
  { name: "alphabetical order", share: 2, make: alphabetical },
  { name: "questions about a word", share: 3, make: aboutWord },
];
