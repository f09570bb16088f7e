// A conversation as rows for supervised training: what the assistant said, each turn after the prompt it would have got.

import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { TrainingMessage } from "../types/training.js";
import type { TrajectoryMessage, TrajectoryTool } from "../types/trajectories.js";
import { plainMessage, plainTools } from "./plainMessages.js";
import { startsWith, type TokenRow } from "./tokenRow.js";

export interface ConversationRenderer {
  /** The conversation as text; with `open` it ends where the assistant's next turn begins. */
  text(
    messages: readonly TrajectoryMessage[],
    tools: readonly TrajectoryTool[] | null,
    open: boolean,
    signal?: AbortSignal,
  ): Promise<string>;
  /** Ids of text in which special tokens are written out. */
  encodeRendered(text: string, signal?: AbortSignal): Promise<number[]>;
  /** The messages as the model says them: each of the assistant is one reply. */
  replies(messages: readonly TrainingMessage[]): readonly TrainingMessage[];
  /** Ids that end an assistant turn. */
  readonly endIds: ReadonlySet<number>;
}

/**
 * "all": every assistant turn up to its end-of-turn token, found by rendering the conversation up to and including it.
 * A turn whose prompt does not continue the row so far (templates that rewrite earlier turns) starts a row of its own.
 * "last": all that follows the prompt of the last turn. A turn of weight 0 is only part of what precedes others.
 * null when a row is longer than `maxTokens`: what follows is not rendered then, since every turn renders all before it.
 * @throws Error when a turn's rendering does not continue its prompt's.
 */
export async function conversationRows(
  given: readonly TrainingMessage[],
  tools: readonly TrajectoryTool[] | null,
  renderer: ConversationRenderer,
  turns: "all" | "last",
  maxTokens: number,
  signal?: AbortSignal,
): Promise<TokenRow[] | null> {
  const messages = turns === "all" ? renderer.replies(given) : given;
  const plain = messages.map(plainMessage);
  const wrapped = plainTools(tools);
  const rows: { tokens: number[]; trained: number[] }[] = [];
  for (const [i, message] of plain.entries()) {
    if (message.role !== "assistant" || (turns === "last" && i < plain.length - 1)) continue;
    if (messages[i]!.weight === 0) continue;
    await yieldToEventLoop();
    const { prompt, turn } = await turnOf(plain.slice(0, i), message, wrapped, renderer, signal);
    const promptIds = await renderer.encodeRendered(prompt, signal);
    const turnIds = await idsAfter(prompt, promptIds, turn, renderer, signal);
    let row = rows.at(-1);
    if (row === undefined || !startsWith(promptIds, row.tokens)) {
      row = { tokens: [], trained: [] };
      rows.push(row);
    }
    const context = promptIds.slice(row.tokens.length);
    row.tokens = row.tokens.concat(context, turnIds);
    if (row.tokens.length > maxTokens) return null;
    const trained = turns === "last" ? turnIds.length : turnLength(turnIds, renderer.endIds);
    for (const _ of context) row.trained.push(0);
    for (const t of turnIds.keys()) row.trained.push(t < trained && row.trained.length > 0 ? 1 : 0);
  }
  return rows.map((row) => ({ tokens: Int32Array.from(row.tokens), trained: Uint8Array.from(row.trained) }));
}

/**
 * A turn's own text, and what stands before it. Some templates open a turn with more than a finished turn keeps (an empty
 * thinking block): the common part counts. Some tell the system's message in the last turn, if that is the user's, and then
 * nowhere, or what was thought before a call as long as no answer follows: the turn follows the prompt that tells it, and its text
 * is what it would be without it.
 */
async function turnOf(
  before: readonly TrajectoryMessage[],
  message: TrajectoryMessage,
  tools: readonly TrajectoryTool[] | null,
  renderer: ConversationRenderer,
  signal?: AbortSignal,
): Promise<{ prompt: string; turn: string }> {
  const whole = await renderer.text([...before, message], tools, false, signal);
  const cut = (length: number) => ({ prompt: whole.slice(0, length), turn: whole.slice(length) });
  if (before.length === 0) return cut(await firstOpening(message, tools, renderer, whole, signal));
  const prompt = await renderer.text(before, tools, true, signal);
  if (whole.startsWith(prompt)) return cut(prompt.length);
  const closed = await renderer.text(before, tools, false, signal);
  let length = 0;
  while (length < prompt.length && prompt[length] === whole[length]) length++;
  if (length >= closed.length) return cut(beforeOpenMark(prompt, closed.length, length));
  const unexplained = before.map(withoutThoughts);
  if (unexplained.some((one, i) => one !== before[i])) {
    return { prompt, turn: (await turnOf(unexplained, message, tools, renderer, signal)).turn };
  }
  const others = before.filter(({ role }) => role !== "system" && role !== "developer");
  if (others.length > 0 && others.length < before.length) {
    return { prompt, turn: (await turnOf(others, message, tools, renderer, signal)).turn };
  }
  throw new Error("the chat template does not render the assistant's turn after its prompt");
}

/** Nor what is said beside a call, which some templates take for a thought. */
function withoutThoughts(message: TrajectoryMessage): TrajectoryMessage {
  const bare = Object.entries(message).filter(([field]) => !THOUGHTS.has(field));
  const isBare = bare.length === Object.keys(message).length;
  const calls = (message.tool_calls ?? []).length > 0;
  if (isBare && !(calls && message.content)) return message;
  return { ...(Object.fromEntries(bare) as unknown as TrajectoryMessage), ...(calls ? { content: null } : {}) };
}

const THOUGHTS: ReadonlySet<string> = new Set(["reasoning", "reasoning_content", "thinking"]);

/** `to`, or the place after `from` where a mark begins that is not closed before `to`: "<think>" and "<tool_call>" have no "<t" in common. */
function beforeOpenMark(text: string, from: number, to: number): number {
  const at = Math.max(text.lastIndexOf("<", to - 1), text.lastIndexOf("[", to - 1));
  if (at < from) return to;
  return text.slice(at, to).includes(text[at] === "<" ? ">" : "]") ? to : at;
}

/** Where a turn begins that nothing precedes: what opens the assistant's turn elsewhere opens it here, or what it says there it says here. */
async function firstOpening(
  message: TrajectoryMessage,
  tools: readonly TrajectoryTool[] | null,
  renderer: ConversationRenderer,
  whole: string,
  signal?: AbortSignal,
): Promise<number> {
  const elsewhere = [{ role: "user" as const, content: "x" }];
  const closed = await renderer.text(elsewhere, tools, false, signal);
  const header = (await renderer.text(elsewhere, tools, true, signal)).slice(closed.length);
  const at = whole.indexOf(header);
  if (header !== "" && at >= 0) return at + header.length;
  const { turn } = await turnOf(elsewhere, message, tools, renderer, signal);
  if (whole.length > turn.length && whole.endsWith(turn)) return whole.length - turn.length;
  throw new Error("the chat template cannot begin a conversation with the assistant");
}

/**
 * A turn's ids as a model that was given the prompt would write them: alone, its text may begin with a space that tokenizers put
 * before a text. Where a token would reach over the prompt's end, the turn has tokens of its own.
 */
async function idsAfter(
  prompt: string,
  promptIds: readonly number[],
  turn: string,
  renderer: ConversationRenderer,
  signal?: AbortSignal,
): Promise<number[]> {
  const ids = await renderer.encodeRendered(prompt + turn, signal);
  return startsWith(ids, promptIds) ? ids.slice(promptIds.length) : renderer.encodeRendered(turn, signal);
}

/** Tokens up to and including the end-of-turn token, after which none is sampled; all of them when there is none. */
function turnLength(ids: readonly number[], endIds: ReadonlySet<number>): number {
  const end = ids.findIndex((id) => endIds.has(id));
  return end < 0 ? ids.length : end + 1;
}
