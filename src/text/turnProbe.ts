// Where a template rewrites earlier turns, so that the tokens a model sampled are no beginning of its next prompt.

import type { ChatTemplate } from "../jinja/chatTemplate.js";
import { TemplateError } from "../jinja/errors.js";
import type { ToolFormat } from "../toolFormats.js";
import type { TurnInspection } from "../types/inspection.js";
import { renderConversation } from "./conversation.js";
import { ConversationError } from "./errors.js";
import { promptOpensReasoning, type ReasoningFormat } from "./reasoning.js";
import { parseReply } from "./replyParser.js";
import type { ConversationMessage } from "./templateMessages.js";
import { TOOL_SYNTAX } from "./toolCalls/toolSyntax.js";

export interface ProbedModel {
  template: ChatTemplate;
  specialTokens: Readonly<Record<string, string>>;
  /** Texts of the tokens that end a reply. */
  ends: readonly string[];
  reasoning: ReasoningFormat | null;
  toolFormat: ToolFormat | null;
}

const NUMBER = { type: "integer" };
const TOOL = {
  type: "function",
  function: { name: "add", description: "a + b", parameters: { type: "object", properties: { a: NUMBER, b: NUMBER } } },
};
const THOUGHTS = "I add them.";
const ANSWER = "It is 7.";
const question: ConversationMessage = { role: "user", content: "What is 3 + 4?" };
const next: ConversationMessage = { role: "user", content: "And 5 + 6?" };
/** Some templates take no other ids than of nine letters and digits. */
const CALL_ID = "call00001";
const result: ConversationMessage = { role: "tool", tool_call_id: CALL_ID, name: "add", content: "7" };

/** Every kind of turn that the model has. */
export function probeTurns(model: ProbedModel): TurnInspection[] {
  const thinks = model.reasoning !== null;
  const probes: TurnInspection[] = [];
  const probe = (
    turn: string,
    before: ConversationMessage[],
    reply: string,
    after: ConversationMessage,
    tools = false,
    ends = model.ends,
  ) => {
    const probed = probeTurn({ ...model, ends }, turn, before, reply, after, tools);
    if (probed !== null) probes.push(probed);
  };
  const answer = asAnswer(model.reasoning, ANSWER);
  probe("a reply", [question], answer, next);
  probe("a reply with white space around it", [question], asAnswer(model.reasoning, ` ${ANSWER}\n`), next);
  if (thinks) probe("a reply with thoughts", [question], withThoughts(model.reasoning!, answer), next);
  if (model.toolFormat === null) return probes;
  const call = callText(model);
  const called = thinks ? withThoughts(model.reasoning!, call) : call;
  const answered = thinks ? withThoughts(model.reasoning!, answer) : answer;
  const { end: callEnd } = TOOL_SYNTAX[model.toolFormat];
  const ends = model.ends.filter((text) => text === callEnd);
  probe("a tool call", [question], called, result, true, ends.length > 0 ? ends : model.ends);
  const turns = [question, messageOf(model, called), result];
  probe("the reply after a tool call", turns, answered, next, true);
  return probes;
}

/** null: the model gives no such reply, as its prompts have opened the thoughts. */
function probeTurn(
  model: ProbedModel,
  turn: string,
  before: ConversationMessage[],
  reply: string,
  after: ConversationMessage,
  usesTools: boolean,
): TurnInspection | null {
  const { template, specialTokens, reasoning, ends } = model;
  const tools = usesTools ? [TOOL] : null;
  const render = (messages: ConversationMessage[]) => renderConversation(template, { messages, tools, specialTokens });
  try {
    const prompt = render(before);
    const isOpen = reasoning !== null && promptOpensReasoning(prompt, reasoning);
    const thought = isOpen ? reasoning.opens.find((open) => reply.startsWith(open)) : "";
    if (thought === undefined) return null;
    const said = isOpen ? reply.slice(thought.length).trimStart() : reply;
    const rendered = render([...before, messageOf(model, reply), after]);
    // The end that the template writes, or where it writes another text the usual one.
    const start = prompt + said;
    const end = ends.find((text) => rendered.startsWith(start + text)) ?? ends[0] ?? "";
    const sampled = start + end;
    const differsAt = rendered.startsWith(sampled) ? null : firstDifference(sampled, rendered);
    return { turn, exact: differsAt === null, sampled, rendered, differs_at: differsAt, refused: null };
  } catch (error) {
    if (!(error instanceof TemplateError || error instanceof ConversationError)) throw error;
    return { turn, exact: false, sampled: reply, rendered: "", differs_at: 0, refused: error.message };
  }
}

function firstDifference(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

/** Behind its header, where replies are messages. */
function asAnswer(reasoning: ReasoningFormat | null, text: string): string {
  return (reasoning?.messages?.answers[0] ?? "") + text;
}

/** As models write them: tags stand on lines of their own. */
function withThoughts(format: ReasoningFormat, answer: string): string {
  const { opens, closes, messages, gap = "\n\n" } = format;
  const [[open], [close]] = [opens, closes];
  if (messages !== undefined) return open + THOUGHTS + close + messages.next + answer;
  const isTag = open.startsWith("<");
  return isTag ? `${open}\n${THOUGHTS}\n${close}${gap}${answer}` : `${open}${THOUGHTS}${close}${answer}`;
}

function callText({ toolFormat, template }: ProbedModel): string {
  const { open, head, style, tail, close } = TOOL_SYNTAX[toolFormat!].texts(template.source);
  const given = {
    json_arguments: '{"a": 3, "b": 4}',
    qwen_xml: "<parameter=a>\n3\n</parameter>\n<parameter=b>\n4\n</parameter>\n",
    python: "a=3, b=4",
    gemma4: "{a:3,b:4}",
  };
  return open + head("add") + given[style] + tail + close;
}

/** The message that a reply is answered as, and that comes back with the next request. */
function messageOf({ reasoning: format, toolFormat }: ProbedModel, reply: string): ConversationMessage {
  const offeredTools = new Map([["add", TOOL.function.parameters]]);
  const { reasoning, content, toolCalls } = parseReply(reply, { reasoning: format, toolFormat, offeredTools });
  const message: ConversationMessage = {
    role: "assistant",
    content: toolCalls.length > 0 && content === "" ? null : content,
  };
  if (reasoning !== "") message.reasoning = reasoning;
  if (toolCalls.length > 0)
    message.tool_calls = toolCalls.map((call) => ({ id: CALL_ID, type: "function", function: call }));
  return message;
}
