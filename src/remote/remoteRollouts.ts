// Completions of rollouts that a server of another engine draws, as those of this engine would be.

import { NEUTRAL_FIELDS, samplingNumbers } from "../samplingNumbers.js";
import type { ChatCompletion, ChatCompletionCreateParams } from "../types/chat.js";
import type { AnnealClient, RequestOptions } from "../types/client.js";
import type { ServerAddress } from "./vllmServer.js";
import { VllmServer } from "./vllmServer.js";

/** What rollouts draw their completions from. */
export interface CompletionSource {
  chat: { completions: Pick<AnnealClient["chat"]["completions"], "create"> };
  fetch: typeof fetch;
  apiKey: string;
  /** What every request says that does not say it itself. */
  defaults?: Partial<ChatCompletionCreateParams>;
  /** What training is told of a completion beside what its source says. */
  record?(request: ChatCompletionCreateParams, completion: ChatCompletion): ChatCompletion;
}

export function remoteSource(address: ServerAddress): CompletionSource {
  const server = new VllmServer(address);
  const create = (params: ChatCompletionCreateParams, options?: RequestOptions) =>
    server.complete(params, options?.signal);
  return {
    chat: { completions: { create: create as AnnealClient["chat"]["completions"]["create"] } },
    fetch: server.fetch,
    apiKey: address.api_key ?? "",
    // Whatever defaults the server's model folder names; training is told of everything else.
    defaults: NEUTRAL_FIELDS,
    record(request, completion) {
      const settings = notNeutral(request);
      if (settings === null) return completion;
      const choices = completion.choices.map((choice) => ({ ...choice, sampling_settings: settings }));
      return { ...completion, choices };
    },
  };
}

/** The sampling settings of a request that change what tokens are drawn from; null: none do. */
function notNeutral(request: ChatCompletionCreateParams): Record<string, unknown> | null {
  const given: Partial<Record<string, unknown>> = { ...request };
  const settings = samplingNumbers.filter(({ name, neutral }) => given[name] != null && given[name] !== neutral);
  return settings.length === 0 ? null : Object.fromEntries(settings.map(({ name }) => [name, given[name]]));
}
