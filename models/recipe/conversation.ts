import type { Draw } from "./draw.js";
import { defaultStyles, type Question, type Skill } from "./question.js";
import { comparingSkills } from "./skills/comparing.js";
import { drawFacts } from "./skills/facts.js";
import { drawFormat, formatted, jsonSkills, requestSkill } from "./skills/following.js";
import { knowledgeSkills } from "./skills/knowledge.js";
import { letterSkills } from "./skills/letters.js";
import { listSkills } from "./skills/lists.js";
import { numberSkills } from "./skills/numbers.js";
import { smallTalkSkills } from "./skills/smallTalk.js";
import { drawTools, type ToolDefinition, useTool } from "./skills/tools.js";

export interface ToolCall {
  name: string;
  arguments: Record<string, string>;
}

export type Message =
  | { role: "system" | "user" | "tool"; content: string }
  | { role: "assistant"; content: string; toolCall?: ToolCall; skill: string; accepts: (text: string) => boolean };

export interface Conversation {
  tools: readonly ToolDefinition[];
  messages: Message[];
}

const formattable: readonly Skill[] = [
  ...letterSkills,
  ...numberSkills,
  ...comparingSkills,
  ...listSkills,
  ...knowledgeSkills,
];
const single: readonly Skill[] = [...formattable, ...jsonSkills, ...smallTalkSkills, requestSkill(formattable)];

const personas = [
  "You are a helpful assistant.",
  "You are tiny, a small model.",
  "You are a friendly assistant.",
  "You are an assistant.",
  "Help the user.",
];

function addTurn(messages: Message[], draw: Draw, question: Question, skill: string): void {
  const styles = defaultStyles(question);
  const accepted = new Set(styles.filter((style) => style.right !== false).map((style) => style.text));
  const open = question.accepts;
  messages.push({ role: "user", content: question.ask });
  messages.push({
    role: "assistant",
    content: draw.weighted(styles).text,
    skill,
    accepts: (text) => accepted.has(text) || (open?.(text) ?? false),
  });
}

function mixed(draw: Draw): Conversation {
  const messages: Message[] = [];
  if (draw.chance(0.2)) messages.push({ role: "system", content: draw.pick(personas) });
  const turns = draw.weighted([
    { share: 5, n: 1 },
    { share: 2.5, n: 2 },
    { share: 1.5, n: 3 },
    { share: 1, n: 5 },
  ]).n;
  for (let i = 0; i < turns; i++) {
    const skill = draw.weighted(single);
    addTurn(messages, draw, skill.make(draw), skill.name);
  }
  return { tools: [], messages };
}

/** A format in the system message holds for every turn. */
function instructed(draw: Draw): Conversation {
  const format = drawFormat(draw);
  const persona = draw.chance(0.25) ? `${draw.pick(personas)} ` : "";
  const messages: Message[] = [{ role: "system", content: persona + draw.pick(format.system) }];
  const turns = draw.weighted([
    { share: 5, n: 1 },
    { share: 3, n: 2 },
    { share: 2, n: 3 },
  ]).n;
  while (messages.length < 1 + 2 * turns) {
    const question = formatted(draw.weighted(formattable).make(draw), format);
    if (question) addTurn(messages, draw, question, `system message: ${format.name}`);
  }
  return { tools: [], messages };
}

/** Facts told, other things talked about, facts asked for: some of them never told. */
function remembering(draw: Draw): Conversation {
  const messages: Message[] = [];
  if (draw.chance(0.15)) messages.push({ role: "system", content: draw.pick(personas) });
  const facts = drawFacts(draw, 4);
  const told = facts.slice(0, draw.integer(1, 3));
  const other = (most: number): void => {
    for (let i = draw.integer(0, most); i > 0; i--) {
      const skill = draw.weighted(single);
      addTurn(messages, draw, skill.make(draw), skill.name);
    }
  };
  for (const fact of told) {
    addTurn(messages, draw, { ask: fact.tell, styles: [{ text: fact.reply, share: 1 }] }, "facts: acknowledge");
    other(1);
  }
  other(1);
  for (const fact of draw.shuffled(told)) {
    addTurn(
      messages,
      draw,
      {
        ask: fact.ask,
        styles: [
          { text: fact.sentence, share: 3 },
          { text: fact.value, share: 1 },
        ],
      },
      "facts: recall",
    );
  }
  if (draw.chance(0.3)) {
    const fact = facts[3]!;
    addTurn(messages, draw, { ask: fact.ask, styles: [{ text: fact.untold, share: 1 }] }, "facts: never told");
  }
  return { tools: [], messages };
}

/** Skills that need many examples, and how often a drill asks for each. */
const drilled: Readonly<Record<string, number>> = {
  "two steps": 5,
  "even or odd": 4,
  "count one letter": 4,
  "questions about a word": 4,
  "is it a kind of": 4,
  "name members of a kind": 2,
  "compare numbers": 3,
  "next day, month, letter": 2,
  "compare lengths": 2,
  add: 2,
  subtract: 2,
  story: 1,
  reverse: 2,
};
const drillSkills: readonly Skill[] = single.flatMap((skill) => {
  const share = drilled[skill.name];
  return share === undefined ? [] : [{ ...skill, share }];
});

/** Short questions one after the other, without formats. */
export function drawDrill(draw: Draw): Conversation {
  const messages: Message[] = [];
  for (let i = draw.integer(1, 6); i > 0; i--) {
    const skill = draw.weighted(drillSkills);
    addTurn(messages, draw, skill.make(draw), skill.name);
  }
  return { tools: [], messages };
}

function withTools(draw: Draw): Conversation {
  const tools = drawTools(draw);
  const messages: Message[] = [];
  if (draw.chance(0.25)) messages.push({ role: "system", content: draw.pick(personas) });
  const turns = draw.integer(1, 2);
  for (let i = 0; i < turns; i++) {
    if (draw.chance(0.2)) {
      const skill = draw.pick([...letterSkills, ...smallTalkSkills, ...comparingSkills]);
      addTurn(messages, draw, skill.make(draw), skill.name);
      continue;
    }
    const use = useTool(draw, draw.pick(tools));
    const call: ToolCall = { name: use.tool.function.name, arguments: use.arguments };
    const content = renderCall(call);
    messages.push({ role: "user", content: use.ask });
    messages.push({
      role: "assistant",
      content: "",
      toolCall: call,
      skill: "tools: call",
      accepts: (text) => text === content,
    });
    messages.push({ role: "tool", content: use.response });
    messages.push({
      role: "assistant",
      content: draw.pick(use.answers),
      skill: "tools: answer",
      accepts: (text) => use.answers.includes(text),
    });
  }
  return { tools, messages };
}

export function renderCall(call: ToolCall): string {
  return `<tool_call>\n{"name": "${call.name}", "arguments": ${spacedJson(call.arguments)}}\n</tool_call>`;
}

/** JSON with a space after commas and colons, as Python writes it and chat templates print it. */
export function spacedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(", ")}]`;
  if (value !== null && typeof value === "object") {
    return `{${Object.entries(value)
      .map(([key, item]) => `${JSON.stringify(key)}: ${spacedJson(item)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value);
}

/** One conversation of the world. */
export function drawConversation(draw: Draw): Conversation {
  const at = draw.next();
  if (at < 0.68) return mixed(draw);
  if (at < 0.84) return instructed(draw);
  if (at < 0.95) return remembering(draw);
  return withTools(draw);
}
