// One attempt at a scenario, and the trajectory it leaves.

import { inspect } from "node:util";
import { AnnealError, BadRequestError } from "../errors.js";
import type { CompletionSource } from "../remote/remoteRollouts.js";
import { requestSeed } from "../seeds.js";
import type { ChatCompletion, ChatCompletionCreateParams, ChatMessageParam } from "../types/chat.js";
import type { RewardModel, Rollout, RolloutCompletionParams, RolloutContext, RolloutResult } from "../types/gather.js";
import type { Trajectory } from "../types/trajectories.js";
import { recordedFetch } from "./recordedFetch.js";
import { RolloutRecorder } from "./recorder.js";

/** The model under way, pinned. */
export interface PinnedModel {
  name: string;
  /** null: not a trained model. */
  step: number | null;
}

export interface RolloutOutcome {
  trajectory: Trajectory;
  completionTokens: number;
  /** Completions in all, and those that ended at their token limit. */
  completions: number;
  truncated: number;
}

/** Rejects with what the rollout throws, with `signal.reason`, or when the reward is no finite number. */
export async function runRollout<S>(
  source: CompletionSource,
  model: PinnedModel,
  scenario: S,
  rollout: Rollout<S>,
  { seed, signal, reward: score }: { seed: bigint; signal: AbortSignal; reward?: RewardModel | undefined },
): Promise<RolloutOutcome> {
  const recorder = new RolloutRecorder();
  const started = new Date();
  const begin = performance.now();
  const context = createContext(source, model, scenario, recorder, seed, signal);
  const result = await untilAborted(() => rollout(context), signal);
  const own: RolloutResult =
    typeof result === "object" ? (result ?? {}) : result === undefined ? {} : { reward: result };
  const { metrics, metadata } = own;
  const given = score ? await untilAborted(() => score(conversationOf(recorder), { signal }), signal) : own.reward;
  const reward = rewardOf(given);
  if (reward === null) {
    const [what, param] = score ? ["the reward model", "reward"] : ["a rollout", "rollout"];
    const got = score || (typeof result === "object" && result !== null) ? given : result;
    throw new AnnealError(`${what} must answer with a finite reward, got ${inspect(got)}`, 422, {
      code: "invalid_reward",
      param,
    });
  }
  const trajectory: Trajectory = {
    ...recorder.histories(),
    reward,
    initial_policy_version: model.step,
    final_policy_version: model.step,
    metrics: {
      completion_tokens: recorder.completions > 0 ? recorder.completionTokens / recorder.completions : 0,
      duration: (performance.now() - begin) / 1000,
      ...definedEntries("metrics", metrics, ["number", "boolean"]),
    },
    metadata: definedEntries("metadata", metadata, ["number", "boolean", "string", "null"]),
    logs: [],
    start_time: started.toISOString(),
  };
  const { completionTokens, completions, truncated } = recorder;
  return { trajectory, completionTokens, completions, truncated };
}

function conversationOf(recorder: RolloutRecorder): ChatMessageParam[] {
  if (recorder.completions === 0) {
    throw new AnnealError("a rollout must have asked for a completion that can be scored", 422, {
      code: "invalid_reward",
      param: "rollout",
    });
  }
  const { messages_and_choices } = recorder.histories();
  return messages_and_choices.map((item) => ("message" in item ? item.message : item) as ChatMessageParam);
}

/** null: no reward. */
export function rewardOf(value: unknown): number | null {
  if (typeof value === "boolean") return Number(value);
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function createContext<S>(
  source: CompletionSource,
  model: PinnedModel,
  scenario: S,
  recorder: RolloutRecorder,
  seed: bigint,
  signal: AbortSignal,
): RolloutContext<S> {
  let completions = 0;
  const conversation: ChatMessageParam[] = [];

  /** What every recorded completion carries; a request for another model is none of this rollout's. */
  const prepare = <P extends ChatCompletionCreateParams>(params: P): P | null => {
    if (params.model != null && params.model !== model.name) return null;
    return {
      ...source.defaults,
      ...params,
      model: model.name,
      seed: params.seed ?? requestSeed(seed, completions++),
      logprobs: true,
      return_token_ids: true,
    };
  };

  const record = (request: ChatCompletionCreateParams, completion: ChatCompletion) =>
    recorder.record(request, source.record?.(request, completion) ?? completion);

  const complete: RolloutContext<S>["complete"] = async (params: RolloutCompletionParams) => {
    if ((params as ChatCompletionCreateParams).stream) {
      const hint = "stream through the rollout's fetch";
      throw new BadRequestError("a rollout's own completions cannot be streamed", { param: "stream", hint });
    }
    const prepared = prepare(params);
    const completion = await source.chat.completions.create({ ...(prepared ?? params), stream: false }, { signal });
    if (prepared) record(prepared, completion);
    return completion;
  };

  return {
    scenario,
    model: model.name,
    async chat(content, params = {}) {
      const asked = typeof content === "string" ? [{ role: "user", content }] : content;
      const completion = await complete({ ...params, messages: [...conversation, ...asked] });
      const { content: text, tool_calls } = completion.choices[0]!.message;
      conversation.push(...asked, { role: "assistant", content: text ?? "", ...(tool_calls ? { tool_calls } : {}) });
      return text ?? "";
    },
    complete,
    fetch: recordedFetch({
      fetch: source.fetch,
      apiKey: source.apiKey,
      signal,
      prepare,
      record,
    }),
    signal,
    seed,
  };
}

/** The entries that have a value: undefined and numbers that are not finite are none. */
function definedEntries<T>(
  field: string,
  record: Readonly<Record<string, T>> | null | undefined,
  types: readonly string[],
): Record<string, T> {
  const typeOf = (value: T) => (value === null ? "null" : typeof value);
  const entries = Object.entries(record ?? {}).filter(
    ([, value]) => value !== undefined && (typeof value !== "number" || Number.isFinite(value)),
  );
  const wrong = entries.find(([, value]) => !types.includes(typeOf(value)));
  if (wrong) {
    const message = `${field}.${wrong[0]} of a rollout must be ${types.join(" or ")}, got ${typeOf(wrong[1])}`;
    throw new AnnealError(message, 422, { code: "invalid_result", param: "rollout" });
  }
  return Object.fromEntries(entries);
}

/** Work that does not look at the signal is left behind; none is begun after it. */
export async function untilAborted<T>(begin: () => T | Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const work = Promise.resolve(begin());
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
