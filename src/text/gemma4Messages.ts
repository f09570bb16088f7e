// Messages as Gemma 4's template reads them.

import type { ChatTemplate } from "../jinja/chatTemplate.js";
import { TemplateError } from "../jinja/errors.js";
import { type TemplateMessage, withText } from "./templateMessages.js";

/**
 * What tools answered belongs to the turn that called them. The template finds the name of an answer's function by the id of its
 * call, so calls and answers get ids where they have none. It shows what is said beside calls behind their answers, so that is a
 * message of its own, unless it is the last one and `continues`. Its first version knew no answers in messages of their own: there
 * they are a field of the message with the calls. `withWholeTurns` mends what such messages become.
 */
export function gemma4Messages(
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  continues: boolean,
): TemplateMessage[] {
  const { takesAnswers, showsThoughts } = waysOf(template);
  const told: TemplateMessage[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    if (message.tool_calls === undefined) {
      told.push(at > 0 && message.role === "developer" ? { ...message, role: "system" } : message);
      continue;
    }
    const calls = (message.tool_calls as Call[]).map((call, i) => ({ ...call, id: call.id ?? `call ${i}` }));
    const from = at + 1;
    while (messages[at + 1]?.role === "tool") at++;
    const answers = messages.slice(from, at + 1).map((answer, i) => namedAnswer(answer, calls, i));
    const { tool_calls: _, ...said } = message;
    const { content, reasoning, reasoning_content, ...bare } = said;
    let calling: TemplateMessage = { ...message, tool_calls: calls };
    if (content !== null && content.length > 0 && !(continues && from === messages.length)) {
      const spoken = showsThoughts ? said : { ...bare, content };
      told.push({ ...spoken, content: withEnd(content) });
      calling = showsThoughts ? { ...bare, content: null, tool_calls: calls } : { ...calling, content: null };
    }
    if (takesAnswers || answers.length === 0) told.push(calling, ...answers);
    else told.push({ ...calling, tool_responses: answers.map(({ name, content }) => ({ name, response: content })) });
  }
  return told;
}

/** Stands at the end of a text behind which its turn goes on with calls. */
const TEXT_END = "TEXT_BEFORE_CALLS_ENDS_HERE";

function withEnd(content: NonNullable<TemplateMessage["content"]>): TemplateMessage["content"] {
  if (typeof content === "string") return content + TEXT_END;
  return [...content.slice(0, -1), withText(content.at(-1)!, (text) => text + TEXT_END)];
}

/** The template ends a turn behind each text, in its first version behind calls, too, and begins one behind their answers. */
export function withWholeTurns(template: ChatTemplate, rendered: string): string {
  const whole = rendered.replaceAll(TORN_TEXT, "");
  if (waysOf(template).takesAnswers) return whole;
  return whole.replaceAll("<tool_response|><|turn>model\n", "<tool_response|>").replace(TORN_CALLS, "<|tool_response>");
}

const TORN_TEXT = new RegExp(`\\s*${TEXT_END}\\s*(?:<turn\\|>\\n(?:<\\|turn>model\\n)?)?`, "g");
const TORN_CALLS = /(?<=<tool_call\|>)<turn\|>\n$/;

interface Call {
  id?: unknown;
  function: { name: string };
}

/** Answers without ids stand in the order of the calls. */
function namedAnswer(answer: TemplateMessage, calls: readonly Call[], place: number): TemplateMessage {
  const { tool_call_id: id, name } = answer;
  const inPlace = calls[place];
  const isInPlace = id === undefined && (name === undefined || name === inPlace?.function.name);
  const own = isInPlace ? inPlace : calls.find((call) => call.id === id);
  if (own === undefined) return { ...answer, name: name ?? "unknown" };
  return { ...answer, tool_call_id: own.id as string, name: own.function.name };
}

/** What a version of the template does, seen from what it makes of a conversation. */
interface Ways {
  takesAnswers: boolean;
  /** Of messages without calls. */
  showsThoughts: boolean;
}

const knownWays = new WeakMap<ChatTemplate, Ways>();

function waysOf(template: ChatTemplate): Ways {
  let ways = knownWays.get(template);
  if (ways === undefined) {
    const text = probed(template);
    ways = { takesAnswers: !text.includes("<|turn>tool"), showsThoughts: text.includes("Hm.") };
    knownWays.set(template, ways);
  }
  return ways;
}

function probed(template: ChatTemplate): string {
  const call = { id: "1", type: "function", function: { name: "f", arguments: {} } };
  const messages = [
    { role: "user", content: "?" },
    { role: "assistant", content: "I ask.", reasoning: "Hm.", reasoning_content: "Hm." },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "1", name: "f", content: "!" },
  ];
  try {
    return template.render({ messages, tools: null, add_generation_prompt: false, bos_token: "" });
  } catch (error) {
    // It will say itself what it refuses.
    if (error instanceof TemplateError) return "";
    throw error;
  }
}
