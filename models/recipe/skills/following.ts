import type { Draw } from "../draw.js";
import type { Question, Skill, Style } from "../question.js";

/** An instruction about the form of answers, for one question or, as a system message, for a whole conversation. */
export interface Format {
  name: string;
  share: number;
  system: readonly string[];
  /** Appended to a question. */
  request: readonly string[];
  /** The only right answers to a question under this format; undefined where the format makes no sense. */
  answers: (question: Question) => readonly string[] | undefined;
  /** Open answers stay open: the question's own check still applies. */
  keepsOpen?: boolean;
}

const json = (question: Question): string => question.json ?? JSON.stringify(question.value);
const single = (question: Question): boolean => question.elements === undefined;
const closed = (question: Question): boolean => question.accepts === undefined;

const plain: readonly Format[] = [
  {
    name: "only the answer",
    share: 4,
    keepsOpen: true,
    system: [
      "Give only the answer.",
      "Reply with the answer only.",
      "Be brief.",
      "Answer in one word.",
      "Only say the answer, nothing else.",
    ],
    request: ["Just the answer.", "Only the answer.", "Give only the answer.", "Answer in one word."],
    answers: (question) => (question.value === undefined ? undefined : [question.value]),
  },
  {
    name: "a full sentence",
    share: 2,
    system: ["Answer in a full sentence.", "Always answer in full sentences.", "Use a full sentence."],
    request: ["Answer in a full sentence.", "Use a full sentence."],
    answers: (question) => (question.value === undefined ? undefined : question.sentences),
  },
  {
    name: "JSON",
    share: 3,
    system: ["Always answer in JSON.", "Answer in JSON.", "Reply only with JSON."],
    request: ["Answer in JSON.", "Reply in JSON.", "As JSON."],
    answers: (question) =>
      question.value === undefined || !closed(question) ? undefined : [`{"answer": ${json(question)}}`],
  },
  {
    name: "uppercase",
    share: 2,
    keepsOpen: true,
    system: ["Answer in uppercase.", "Always answer in capital letters.", "Write everything in uppercase."],
    request: ["Answer in uppercase.", "Use capital letters."],
    answers: (question) => (question.value === undefined ? undefined : [question.value.toUpperCase()]),
  },
  {
    name: "in quotes",
    share: 1,
    system: ["Put the answer in quotes.", "Always put your answer in quotes."],
    request: ["Put the answer in quotes."],
    answers: (question) =>
      question.value === undefined || !single(question) || !closed(question) ? undefined : [`"${question.value}"`],
  },
  {
    name: "a list, one per line",
    share: 1.5,
    keepsOpen: true,
    system: ["Write lists with one item per line.", "Answer with a list."],
    request: ["One per line.", "Write one item per line.", "Answer with a list."],
    answers: (question) =>
      question.elements === undefined ? undefined : [question.elements.map((item) => `- ${item}`).join("\n")],
  },
  {
    name: "think first",
    share: 2,
    system: ["Think first.", "Think before you answer.", "Always think first."],
    request: ["Think first.", "Think before you answer."],
    answers: (question) =>
      question.working === undefined ? undefined : [`<think>\n${question.working}\n</think>\n\n${question.value}`],
  },
  {
    name: "show the steps",
    share: 2,
    system: ["Show your steps.", "Explain your steps."],
    request: ["Show your steps."],
    answers: (question) =>
      question.working === undefined ? undefined : [`${question.working}. The answer is ${question.value}.`],
  },
];

/** Formats with a word of their own: JSON under a given key, a given first or last word. */
function worded(draw: Draw): Format {
  const word = draw.word(3, 6);
  const at = draw.next();
  if (at < 0.5) {
    const key = draw.chance(0.6) ? draw.pick(["result", "value", "answer", "reply", "output", "text", "x"]) : word;
    return {
      name: "JSON with a key",
      share: 2,
      system: [`Always answer in JSON with the key "${key}".`, `Answer in JSON with key ${key}.`],
      request: [`Answer in JSON with the key "${key}".`, `As JSON with key ${key}.`],
      answers: (question) =>
        question.value === undefined || !closed(question) ? undefined : [`{"${key}": ${json(question)}}`],
    };
  }
  const first = at < 0.75;
  return {
    name: first ? "a first word" : "a last word",
    share: 1,
    system: [`${first ? "Begin" : "End"} every answer with "${word}".`],
    request: [`${first ? "Begin" : "End"} your answer with "${word}".`],
    answers: (question) =>
      question.value === undefined || !closed(question)
        ? undefined
        : [first ? `${word} ${question.value}` : `${question.value} ${word}`],
  };
}

export function drawFormat(draw: Draw): Format {
  return draw.chance(0.2) ? worded(draw) : draw.weighted(plain);
}

/** The question's answers under a format, or undefined where the format does not fit it. */
export function formatted(question: Question, format: Format, request?: string): Question | undefined {
  const answers = format.answers(question);
  if (!answers || answers.length === 0) return undefined;
  const styles = answers.map((text) => ({ text, share: 1 }));
  const ask =
    request === undefined ? question.ask : `${question.ask}${/[.?!]$/.test(question.ask) ? "" : "."} ${request}`;
  return { ask, styles, accepts: format.keepsOpen ? question.accepts : undefined };
}

/** A skill that asks another skill's question with a format request at its end. */
export function requestSkill(skills: readonly Skill[]): Skill {
  return {
    name: "format requests",
    share: 14,
    make: (draw) => {
      for (;;) {
        const question = draw.weighted(skills).make(draw);
        const format = drawFormat(draw);
        const made = formatted(question, format, draw.pick(format.request));
        if (made) return made;
      }
    },
  };
}

const fields: Record<string, (word: string) => string> = {
  word: (word) => `"${word}"`,
  length: (word) => String(word.length),
  first: (word) => `"${word[0]}"`,
  last: (word) => `"${word[word.length - 1]}"`,
  upper: (word) => `"${word.toUpperCase()}"`,
  reversed: (word) => `"${[...word].reverse().join("")}"`,
};

/**
 * JSON about a word. "Describe ... as JSON" is answered in several wrappings on purpose (headroom for reinforcement learning);
 * "Give only JSON" strictly.
 */
function describe(draw: Draw): Question {
  const word = draw.word(3, 7);
  const keys = draw.shuffled(Object.keys(fields)).slice(0, draw.integer(2, 3));
  const body = `{${keys.map((key) => `"${key}": ${fields[key]!(word)}`).join(", ")}}`;
  const listed = keys.length === 2 ? `${keys[0]} and ${keys[1]}` : `${keys[0]}, ${keys[1]} and ${keys[2]}`;
  if (draw.chance(0.4)) {
    return {
      ask: draw.pick([
        `Give only JSON about "${word}" with keys ${listed}.`,
        `Only JSON: "${word}" with keys ${listed}.`,
      ]),
      styles: [{ text: body, share: 1 }],
    };
  }
  const styles: Style[] = [
    { text: body, share: 0.36 },
    { text: `\`\`\`json\n${body}\n\`\`\``, share: 0.4 },
    { text: `Here is the JSON: ${body}`, share: 0.24 },
  ];
  return {
    ask: draw.pick([
      `Describe "${word}" as JSON with keys ${listed}.`,
      `Describe the word "${word}" as JSON with keys ${listed}.`,
    ]),
    styles,
  };
}

/** Copying given values into JSON. */
function fill(draw: Draw): Question {
  const count = draw.integer(1, 3);
  const keys = draw.distinctWords(count, 3, 6);
  const pairs = keys.map((key) => {
    if (draw.chance(0.4)) {
      const n = draw.smallNumber();
      return { key, said: String(n), value: String(n) };
    }
    const text = draw.word(3, 6);
    return { key, said: `"${text}"`, value: `"${text}"` };
  });
  const said = pairs.map(({ key, said }) => `${key} ${said}`);
  const listed = said.length === 1 ? said[0] : `${said.slice(0, -1).join(", ")} and ${said[said.length - 1]}`;
  return {
    ask: draw.pick([`Make JSON with ${listed}.`, `Write JSON with ${listed}.`]),
    styles: [{ text: `{${pairs.map(({ key, value }) => `"${key}": ${value}`).join(", ")}}`, share: 1 }],
  };
}

export const jsonSkills: readonly Skill[] = [
  { name: "describe as JSON", share: 5, make: describe },
  { name: "fill JSON", share: 2, make: fill },
];
