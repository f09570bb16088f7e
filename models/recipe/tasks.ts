import type { Draw } from "./draw.js";

/** A task for reinforcement learning on the finished model: a prompt and a reward of 0 or 1 for the reply. */
export interface Task {
  name: string;
  example: (draw: Draw) => { prompt: string; reward: (reply: string) => number };
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

/** Tasks the model can do but does not do every time. */
export const tasks: readonly Task[] = [
  {
    name: 'Spell "planet" backwards, one word.',
    example: (draw) => {
      const word = draw.ordinaryWord(3, 7);
      return {
        prompt: `Spell "${word}" backwards, one word.`,
        reward: (reply) => Number(reply.trim() === [...word].reverse().join("")),
      };
    },
  },
  {
    name: 'Describe "planet" as JSON with keys word and length.',
    example: (draw) => {
      const word = draw.ordinaryWord(3, 7);
      const wanted = JSON.stringify({ word, length: word.length });
      return {
        prompt: `Describe "${word}" as JSON with keys word and length.`,
        reward: (reply) => Number(JSON.stringify(parsed(reply)) === wanted),
      };
    },
  },
  {
    name: "What is 27 + 16 - 9? (the last number counts)",
    example: (draw) => {
      const [a, b, c] = draw.item(
        () => [draw.integer(10, 60), draw.integer(10, 60), draw.integer(1, 19)] as const,
        (made) => `task ${made.join(" ")}`,
      );
      return {
        prompt: `What is ${a} + ${b} - ${c}?`,
        reward: (reply) => Number(reply.match(/-?\d+/g)?.at(-1) === String(a + b - c)),
      };
    },
  },
  {
    name: 'How many letters are in "planet"? (digits only)',
    example: (draw) => {
      const word = draw.ordinaryWord(3, 8);
      return {
        prompt: `How many letters are in "${word}"?`,
        reward: (reply) => Number(reply.trim() === String(word.length)),
      };
    },
  },
  {
    name: 'Sort the letters of "planet". (the word only)',
    example: (draw) => {
      const word = draw.ordinaryWord(3, 6);
      return {
        prompt: `Sort the letters of "${word}".`,
        reward: (reply) => Number(reply.trim() === [...word].sort().join("")),
      };
    },
  },
];
