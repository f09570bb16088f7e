// Trajectories to training rows: which tokens the model saw, which of them it sampled, with which logprobs.
//
// A turn that recorded its prompt and its tokens is taken as it is. Of a turn that did not, the prompt is rendered again
// as the chat completion that made it was. Turns whose prompt continues the row so far extend it; any other turn (a
// template that rewrites history, another conversation) starts a row of its own.

import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { ClosedError, UnavailableError, ValidationError } from "../errors.js";
import type {
  MessageOrChoice,
  Trajectory,
  TrajectoryChoice,
  TrajectoryHistory,
  TrajectoryMessage,
  TrajectoryTool,
} from "../types/trajectories.js";
import { contentText, isChoice, plainMessage, plainTools } from "./plainMessages.js";
import { type SampledTokens, sampledTokens, type TokenNames } from "./sampledTokens.js";
import { startsWith, type TokenRow } from "./tokenRow.js";

/** How the chat completions of the base model turn messages into ids. */
export interface PromptRenderer extends TokenNames {
  /**
   * The prompt of a completion of `messages`, ready for the assistant's turn. `now` is what the template takes for the
   * time; null: not known. Throws what the template raises.
   */
  prompt(
    messages: readonly TrajectoryMessage[],
    tools: readonly TrajectoryTool[] | null,
    now: Date | null,
    signal?: AbortSignal,
  ): Promise<number[]>;
  /** Ids of what an assistant says, behind the header that models of its kind write before it. */
  encodeAnswer(text: string, signal?: AbortSignal): Promise<number[]>;
}

export interface TrajectoryRow extends TokenRow {
  /** Of the sampled tokens at sampling time, at their temperatures, natural logarithms; NaN where there is none. */
  logprobs: Float32Array;
}

export interface TokenizedTrajectory {
  rows: TrajectoryRow[];
  /** Over all rows. */
  trainedTokens: number;
  /** Of these, tokens of choices that recorded a sampling setting which training does not follow. */
  offPolicyTokens: number;
  /** Trained tokens whose logprob was recorded. */
  sampledTokens: number;
  /** Of these, tokens of turns whose prompt was not recorded and had to be rendered again. */
  rerenderedTokens: number;
}

export interface RowSettings {
  /** Also train assistant turns that carry no logprobs; their own values at the time of training then count as old. */
  allowWithoutLogprobs: boolean;
}

/** An assistant turn of which nothing was recorded but its text. */
interface WrittenTurn {
  text: string;
  logprobs: null;
  temperature: number;
  promptIds: null;
}

interface TrainedTurn {
  item: MessageOrChoice;
  turn: SampledTokens | WrittenTurn;
  /** Which item of which history it is. */
  index: number;
  items: readonly MessageOrChoice[];
  /** What its prompt is rendered from when it was not recorded. */
  before(): TrajectoryMessage[];
  tools: TrajectoryTool[] | null;
  now: Date | null;
  /** The path of the history's item at this index. */
  place(index: number): string;
}

/** The assistant turns of a trajectory that are trained, in order, over its histories. `path` starts every error's place. */
function* trainedTurns(
  trajectory: Trajectory,
  names: TokenNames,
  settings: RowSettings,
  path: string,
): Generator<TrainedTurn> {
  const histories: [TrajectoryHistory, string][] = [[trajectory, `${path}.messages_and_choices`]];
  for (const [i, history] of (trajectory.additional_histories ?? []).entries()) {
    histories.push([history, `${path}.additional_histories.${i}.messages_and_choices`]);
  }
  const began = new Date(trajectory.start_time ?? Number.NaN);
  const now = Number.isNaN(began.getTime()) ? null : began;
  for (const [history, place] of histories) {
    const items = history.messages_and_choices;
    const tools = plainTools(history.tools);
    for (const [i, item] of items.entries()) {
      const turn = trainedTurn(item, names, settings, `${place}.${i}`);
      if (turn === null) continue;
      const before = () => items.slice(0, i).map(plainMessage);
      yield { item, turn, index: i, items, before, tools, now, place: (at) => `${place}.${at}` };
    }
  }
}

function trainedTurn(
  item: MessageOrChoice,
  names: TokenNames,
  { allowWithoutLogprobs }: RowSettings,
  path: string,
): SampledTokens | WrittenTurn | null {
  if (isChoice(item)) {
    const turn = sampledTokens(item, names, path);
    if (turn !== null && (turn.logprobs !== null || allowWithoutLogprobs)) return turn;
  }
  if (!allowWithoutLogprobs || (!isChoice(item) && item.role !== "assistant")) return null;
  const message = plainMessage(item);
  if (message.tool_calls && message.tool_calls.length > 0) {
    const place = isChoice(item) ? `${path}.message.tool_calls` : `${path}.tool_calls`;
    throw ValidationError.at(place, "an assistant turn with tool calls can only be trained with its token ids");
  }
  const place = isChoice(item) ? `${path}.message.content` : `${path}.content`;
  return { text: contentText(message.content, place), logprobs: null, temperature: 1, promptIds: null };
}

/** Whether the choice says that it was not drawn from the plain softmax at the temperature it is trained at. */
function isOffPolicy(choice: TrajectoryChoice, { temperature }: { temperature: number }): boolean {
  const settings = choice.sampling_settings;
  if (typeof settings !== "object" || settings === null) return false;
  return Object.keys(settings).some((name) => name !== "temperature" || temperature === 1);
}

/**
 * The rows of one trajectory. Rendering prompts again takes a while, so others get their turn, and `signal` is looked at,
 * before each.
 * @throws ValidationError when it contradicts itself or a prompt cannot be rendered.
 */
export async function tokenizeTrajectory(
  trajectory: Trajectory,
  renderer: PromptRenderer,
  settings: RowSettings,
  path = "trajectory",
  signal?: AbortSignal,
): Promise<TokenizedTrajectory> {
  const result: TokenizedTrajectory = {
    rows: [],
    trainedTokens: 0,
    offPolicyTokens: 0,
    sampledTokens: 0,
    rerenderedTokens: 0,
  };
  let open: OpenRow | null = null;
  const close = () => {
    if (open) result.rows.push(finishRow(open));
    open = null;
  };
  for (const trained of trainedTurns(trajectory, renderer, settings, path)) {
    const { item, turn } = trained;
    const ids = "ids" in turn ? turn.ids : await renderer.encodeAnswer(turn.text, signal);
    if (ids.length === 0) continue;
    const offPolicy = isChoice(item) && isOffPolicy(item, turn);
    if (turn.promptIds === null) await yieldToEventLoop();
    signal?.throwIfAborted();
    const prompt = turn.promptIds ?? (await renderPrompt(trained, renderer, signal));
    if (open === null || !startsWith(prompt, open.tokens)) {
      close();
      open = { tokens: [], trained: [], logprobs: [], temperatures: [] };
    }
    for (const id of prompt.slice(open.tokens.length)) push(open, id, 0, Number.NaN, 1);
    for (const [i, id] of ids.entries()) {
      const trained = open.tokens.length > 0 ? 1 : 0;
      push(open, id, trained, trained ? (turn.logprobs?.[i] ?? Number.NaN) : Number.NaN, turn.temperature);
      result.trainedTokens += trained;
      if (offPolicy) result.offPolicyTokens += trained;
      if (turn.logprobs) result.sampledTokens += trained;
      if (turn.logprobs && turn.promptIds === null) result.rerenderedTokens += trained;
    }
  }
  close();
  return result;
}

async function renderPrompt(
  { index, before, tools, now, place }: TrainedTurn,
  renderer: PromptRenderer,
  signal?: AbortSignal,
): Promise<number[]> {
  try {
    return await renderer.prompt(before(), tools, now, signal);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof ClosedError || error instanceof UnavailableError) throw error;
    throw ValidationError.at(place(index), `its prompt cannot be rendered: ${(error as Error).message}`);
  }
}

/** Beyond it the squares of a group's rewards have no sum. */
const MAX_REWARD = 1e150;

/** Checks what can be checked of a trajectory without rendering it. @throws ValidationError */
export function checkTrajectory(
  trajectory: Trajectory,
  names: TokenNames & { readonly hasTemplate: boolean },
  settings: RowSettings,
  path: string,
): void {
  if (!(Math.abs(trajectory.reward) <= MAX_REWARD)) {
    throw ValidationError.at(`${path}.reward`, `must be a number between -${MAX_REWARD} and ${MAX_REWARD}`);
  }
  // Every prompt begins with those before it: of each history, how far messages have been looked at.
  let history: readonly MessageOrChoice[] | null = null;
  let checked = 0;
  for (const { turn, index, items, place } of trainedTurns(trajectory, names, settings, path)) {
    if (turn.promptIds !== null) continue;
    if (!names.hasTemplate) {
      const message = "required: the base model has no chat template to render the prompt with";
      throw ValidationError.at(`${place(index)}.prompt_token_ids`, message);
    }
    if (items !== history) checked = 0;
    history = items;
    for (; checked < index; checked++) contentText(plainMessage(items[checked]!).content, `${place(checked)}.content`);
  }
}

interface OpenRow {
  tokens: number[];
  trained: number[];
  logprobs: number[];
  temperatures: number[];
}

function push(row: OpenRow, id: number, trained: number, logprob: number, temperature: number): void {
  row.tokens.push(id);
  row.trained.push(trained);
  row.logprobs.push(logprob);
  row.temperatures.push(temperature);
}

function finishRow(row: OpenRow): TrajectoryRow {
  const isTempered = row.temperatures.some((temperature) => temperature !== 1);
  return {
    tokens: Int32Array.from(row.tokens),
    trained: Uint8Array.from(row.trained),
    logprobs: Float32Array.from(row.logprobs),
    ...(isTempered ? { temperatures: Float32Array.from(row.temperatures) } : {}),
  };
}
