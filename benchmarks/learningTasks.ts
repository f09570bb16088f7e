/** Three tasks that the embedded model can do but does not do every time: what reinforcement learning has to improve. */

import { Draw } from "../models/recipe/draw.js";
import { tasks as singleTurn } from "../models/recipe/tasks.js";
import type { Rollout } from "../src/index.js";
import type { ChatMessage } from "../src/types/messages.js";

export interface Scenario {
  prompt: string;
  score(reply: string): number;
}

export interface LearningTask {
  name: string;
  kind: "format" | "reasoning" | "several turns and a tool";
  /** Scenarios of the training side, or of the held-out side, of the split that the model was made with. */
  scenarios(count: number, heldOut: boolean): Scenario[];
  rollout: Rollout<Scenario>;
}

const longest = 64;

const oneTurn: Rollout<Scenario> = async ({ chat, scenario }) =>
  scenario.score(await chat(scenario.prompt, { max_completion_tokens: longest }));

function single(kind: LearningTask["kind"], at: number): LearningTask {
  const { name, example } = singleTurn[at]!;
  return {
    name,
    kind,
    scenarios: (count, heldOut) => distinct(count, new Draw(heldOut ? 7002 : 7001, heldOut), example),
    rollout: oneTurn,
  };
}

function distinct(count: number, draw: Draw, make: (draw: Draw) => { prompt: string; reward(reply: string): number }) {
  const found = new Map<string, Scenario>();
  while (found.size < count) {
    const { prompt, reward } = make(draw);
    found.set(prompt, { prompt, score: reward });
  }
  return [...found.values()];
}

const calculator = {
  type: "function",
  function: {
    name: "calculator",
    description: "Calculate a number.",
    parameters: { type: "object", properties: { expression: { type: "string" } }, required: ["expression"] },
  },
} as const;

/** What a desk calculator says of "12 * 34", or null. */
function calculate(expression: unknown): number | null {
  const match = /^\s*(\d{1,6})\s*([-+*])\s*(\d{1,6})\s*$/.exec(typeof expression === "string" ? expression : "");
  if (!match) return null;
  const [a, b] = [Number(match[1]), Number(match[3])];
  return match[2] === "+" ? a + b : match[2] === "-" ? a - b : a * b;
}

/** Arguments as the model wrote them; null when they are no JSON. */
function parsed(text: string): { expression?: unknown } | null {
  try {
    return JSON.parse(text) as { expression?: unknown };
  } catch {
    return null;
  }
}

/** Asks, answers the call as the tool would, and scores the reply after it. Knowing the answer without asking does not count. */
const withTool: Rollout<Scenario> = async ({ complete, scenario }) => {
  const messages: ChatMessage[] = [{ role: "user", content: scenario.prompt }];
  const settings = { tools: [calculator], tool_choice: "auto" as const, max_completion_tokens: longest };
  const { content, tool_calls } = (await complete({ ...settings, messages })).choices[0]!.message;
  const call = tool_calls?.[0];
  const given = call?.type === "function" ? parsed(call.function.arguments) : null;
  if (!call || !given) return { reward: 0, metrics: { called: 0 } };
  const value = calculate(given.expression);
  const said = value === null ? "no such expression" : String(value);
  messages.push(
    { role: "assistant", content: content ?? "", tool_calls },
    { role: "tool", tool_call_id: call.id, content: said },
  );
  const last = (await complete({ ...settings, messages })).choices[0]!.message.content ?? "";
  return { reward: scenario.score(last), metrics: { called: 1 } };
};

/** The model has seen its calculator asked for "345 * 12" only, never for numbers in a sentence. */
const toolTask: LearningTask = {
  name: 'What is 345 times 12? (with a calculator, "The answer is 4140.")',
  kind: "several turns and a tool",
  scenarios: (count, heldOut) =>
    distinct(count, new Draw(heldOut ? 7002 : 7001, heldOut), (draw) => {
      const [a, b] = draw.pair("tool", () => [draw.integer(11, 999), draw.integer(2, 99)]);
      const [prompt, value] = draw.pick([
        [`What is ${a} times ${b}?`, a * b],
        [`Add ${a} and ${b}.`, a + b],
        [`Subtract ${b} from ${a}.`, a - b],
      ] as const);
      return { prompt, reward: (reply) => Number(reply.trim() === `The answer is ${value}.`) };
    }),
  rollout: withTool,
};

export const learningTasks: readonly LearningTask[] = [single("format", 1), single("reasoning", 2), toolTask];
