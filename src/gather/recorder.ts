// The histories of one rollout, written as its completions come.

import type { ChatCompletion, ChatCompletionChoice, ChatMessageParam } from "../types/chat.js";
import type { MessageOrChoice, TrajectoryChoice, TrajectoryHistory, TrajectoryTool } from "../types/trajectories.js";

/** The parts of a request that say which conversation it belongs to. */
export interface RecordedRequest {
  messages: readonly ChatMessageParam[];
  tools?: readonly object[] | null;
}

interface History {
  items: MessageOrChoice[];
  /** Of each item, what makes it equal to a message of a later request. */
  keys: string[];
  tools: readonly object[] | null;
  toolsKey: string;
}

/**
 * A completion whose messages begin with all of a recorded history continues it (the first such history); any other opens
 * a new one. Several choices of one completion are histories of their own from there on.
 */
export class RolloutRecorder {
  readonly #histories: History[] = [];
  #completionTokens = 0;
  #truncated = 0;
  #completions = 0;

  /** Sampled tokens so far. */
  get completionTokens(): number {
    return this.#completionTokens;
  }

  /** Completions that ended at their token limit. */
  get truncated(): number {
    return this.#truncated;
  }

  get completions(): number {
    return this.#completions;
  }

  record(request: RecordedRequest, completion: ChatCompletion): void {
    const tools = request.tools && request.tools.length > 0 ? request.tools : null;
    const toolsKey = JSON.stringify(tools);
    const keys = request.messages.map(messageKey);
    this.#completions += 1;
    for (const [i, choice] of completion.choices.entries()) {
      const found = i === 0 ? this.#continued(keys, toolsKey) : undefined;
      const history = found ?? { items: [], keys: [], tools, toolsKey };
      if (!found) this.#histories.push(history);
      history.items.push(...request.messages.slice(history.keys.length).map(toTrajectoryMessage));
      history.items.push(toTrajectoryChoice(choice, completion.prompt_token_ids));
      history.keys = [...keys, messageKey(choice.message as ChatMessageParam)];
      this.#completionTokens += choice.token_ids?.length ?? choice.logprobs?.content.length ?? 0;
      if (choice.finish_reason === "length") this.#truncated += 1;
    }
  }

  /** The first history and the others. */
  histories(): TrajectoryHistory & { additional_histories: TrajectoryHistory[] } {
    const [main, ...others] = this.#histories.map(({ items, tools }) => ({
      // A copy: a completion that nobody waited for may still come.
      messages_and_choices: [...items],
      ...(tools ? { tools: tools as readonly TrajectoryTool[] as TrajectoryTool[] } : {}),
    }));
    return { ...(main ?? { messages_and_choices: [] }), additional_histories: others };
  }

  #continued(keys: readonly string[], toolsKey: string): History | undefined {
    return this.#histories.find(
      (history) =>
        history.toolsKey === toolsKey &&
        history.keys.length <= keys.length &&
        history.keys.every((key, i) => key === keys[i]),
    );
  }
}

/** Equal for messages that render alike: who says what, which calls; not how the object is spelled. */
function messageKey(message: ChatMessageParam): string {
  const calls = (message.tool_calls ?? []) as { function?: { name: string; arguments?: unknown } }[];
  return JSON.stringify([
    message.role,
    textOf(message.content),
    calls.map((call) => [call.function?.name, argumentsText(call.function?.arguments)]),
    message.tool_call_id ?? null,
    message.name ?? null,
  ]);
}

function argumentsText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? {});
}

function textOf(content: ChatMessageParam["content"]): unknown {
  if (content == null) return "";
  if (typeof content === "string") return content;
  const texts = content.map((part) => (typeof part === "string" ? part : (part as { text?: unknown }).text));
  return texts.every((text) => typeof text === "string") ? texts.join("") : content;
}

function toTrajectoryMessage(message: ChatMessageParam): MessageOrChoice {
  return structuredClone(message) as unknown as MessageOrChoice;
}

/** What training needs of a choice: its logprobs without the tokens' texts beside them, its ids, and its prompt's. */
function toTrajectoryChoice(choice: ChatCompletionChoice, promptIds: readonly number[] | null): TrajectoryChoice {
  const { role: _, content, tool_calls, reasoning } = choice.message;
  const recorded: TrajectoryChoice = {
    index: choice.index,
    finish_reason: choice.finish_reason,
    message: {
      role: "assistant",
      content,
      ...(tool_calls && tool_calls.length > 0 ? { tool_calls } : {}),
      ...(reasoning ? { reasoning } : {}),
    },
    logprobs: choice.logprobs && {
      content: choice.logprobs.content.map(({ token, logprob, temperature_logprob }) => ({
        token,
        logprob,
        ...(temperature_logprob === undefined ? {} : { temperature_logprob }),
      })),
    },
    token_ids: choice.token_ids,
    prompt_token_ids: promptIds === null ? null : [...promptIds],
  };
  if (choice.sampling_settings) recorded.sampling_settings = choice.sampling_settings;
  return recorded;
}
