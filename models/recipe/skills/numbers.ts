import type { Draw } from "../draw.js";
import type { Question, Skill } from "../question.js";
import { names } from "../words.js";

function asked(draw: Draw, expression: string): string {
  return draw.pick([
    `What is ${expression}?`,
    `What is ${expression}?`,
    `${expression} = ?`,
    `Calculate ${expression}.`,
    `How much is ${expression}?`,
    `${expression}`,
  ]);
}

function result(draw: Draw, expression: string, value: number, working?: string): Question {
  return {
    ask: asked(draw, expression),
    value: String(value),
    json: String(value),
    sentences: [`${expression} = ${value}`, `The answer is ${value}.`],
    working: working ?? `${expression} = ${value}`,
  };
}

function adding(draw: Draw): Question {
  const [a, b] = draw.pair("+", () => [draw.smallNumber(), draw.smallNumber()]);
  if (draw.chance(0.15))
    return { ...result(draw, `${a} + ${b}`, a + b), ask: draw.pick([`What is ${a} plus ${b}?`, `Add ${a} and ${b}.`]) };
  return result(draw, `${a} + ${b}`, a + b);
}

function subtracting(draw: Draw): Question {
  const [a, b] = draw.pair("-", () => {
    const pair = [draw.smallNumber(), draw.smallNumber()] as const;
    return pair[0] < pair[1] && draw.chance(0.85) ? [pair[1], pair[0]] : pair;
  });
  if (draw.chance(0.15))
    return {
      ...result(draw, `${a} - ${b}`, a - b),
      ask: draw.pick([`What is ${a} minus ${b}?`, `Subtract ${b} from ${a}.`]),
    };
  return result(draw, `${a} - ${b}`, a - b);
}

function multiplying(draw: Draw): Question {
  const [a, b] = draw.pair("*", () => [draw.integer(0, 10), draw.integer(0, 10)]);
  if (draw.chance(0.2)) return { ...result(draw, `${a} * ${b}`, a * b), ask: `What is ${a} times ${b}?` };
  return result(draw, `${a} * ${b}`, a * b);
}

/** Three numbers; three answers in ten show the step between, which is right far more often than the direct answer. */
function twoSteps(draw: Draw): Question {
  const [a, b, c, plus1, plus2] = draw.item(
    () => {
      const maximum = draw.chance(0.5) ? 20 : 60;
      for (;;) {
        const made = [
          draw.integer(1, maximum),
          draw.integer(1, maximum),
          draw.integer(1, maximum),
          draw.chance(0.6),
          draw.chance(0.5),
        ] as const;
        const middle = made[3] ? made[0] + made[1] : made[0] - made[1];
        if (middle >= 0 && (made[4] ? middle + made[2] : middle - made[2]) >= 0) return made;
      }
    },
    (made) => made.join(" "),
  );
  const middle = plus1 ? a + b : a - b;
  const value = plus2 ? middle + c : middle - c;
  const expression = `${a} ${plus1 ? "+" : "-"} ${b} ${plus2 ? "+" : "-"} ${c}`;
  const working = `${a} ${plus1 ? "+" : "-"} ${b} = ${middle}, ${middle} ${plus2 ? "+" : "-"} ${c} = ${value}`;
  const question = result(draw, expression, value, working);
  if (draw.chance(0.4)) return { ...question, ask: question.ask };
  return {
    ask: asked(draw, expression),
    styles: [
      { text: `${value}`, share: 0.45 },
      { text: `The answer is ${value}.`, share: 0.25 },
      { text: `${working}. The answer is ${value}.`, share: 0.3 },
    ],
  };
}

const things = ["apples", "books", "coins", "balls", "pens", "eggs", "cards", "cups", "stones", "keys"];

function story(draw: Draw): Question {
  const name = draw.pick(names);
  const thing = draw.pick(things);
  const more = draw.chance(0.5);
  const [a, b] = draw.pair(more ? "story+" : "story-", () => {
    const first = draw.integer(2, 20);
    return [first, draw.integer(1, more ? 20 : first)];
  });
  const value = more ? a + b : a - b;
  const happened = more
    ? draw.pick([`finds ${b} more`, `buys ${b} more`, `gets ${b} more`])
    : draw.pick([`loses ${b}`, `gives away ${b}`, `sells ${b}`]);
  return {
    ask: `${name} has ${a} ${thing} and ${happened}. How many ${thing} does ${name} have now?`,
    value: String(value),
    json: String(value),
    sentences: [`${name} has ${value} ${thing}.`, `The answer is ${value}.`],
    working: `${a} ${more ? "+" : "-"} ${b} = ${value}`,
  };
}

function nextNumber(draw: Draw): Question {
  const n = draw.item(
    () => draw.integer(0, 199),
    (item) => `next ${item}`,
  );
  const after = draw.chance(0.6);
  const value = String(after ? n + 1 : n === 0 ? 0 : n - 1);
  if (!after && n === 0) return nextNumber(draw);
  return {
    ask: after
      ? draw.pick([`What number comes after ${n}?`, `What comes after ${n}?`])
      : draw.pick([`What number comes before ${n}?`, `What comes before ${n}?`]),
    value,
    json: value,
    sentences: [`The number is ${value}.`],
  };
}

function counting(draw: Draw): Question {
  const from = draw.item(
    () => draw.integer(0, 60),
    (item) => `count ${item}`,
  );
  const to = from + draw.integer(2, 8);
  const up = draw.chance(0.7);
  const elements = Array.from({ length: to - from + 1 }, (_, i) => String(up ? from + i : to - i));
  return {
    ask: up ? `Count from ${from} to ${to}.` : `Count down from ${to} to ${from}.`,
    value: elements.join(", "),
    elements,
    json: `[${elements.join(", ")}]`,
    styles: [{ text: elements.join(", "), share: 1 }],
  };
}

export const numberSkills: readonly Skill[] = [
  { name: "add", share: 7, make: adding },
  { name: "subtract", share: 6, make: subtracting },
  { name: "multiply", share: 3, make: multiplying },
  { name: "two steps", share: 6, make: twoSteps },
  { name: "story", share: 3, make: story },
  { name: "next number", share: 1.5, make: nextNumber },
  { name: "count up or down", share: 1.5, make: counting },
];
