// A server of another engine, as vLLM speaks: which models it serves, adapters at run time, completions.

import { setTimeout as pause } from "node:timers/promises";
import { RemoteServerError, ValidationError } from "../errors.js";
import { remoteRefused, remoteUnexpected, remoteUnreachable } from "../remoteReplies.js";
import { serverUrl } from "../serverUrl.js";
import type { ChatCompletion, ChatCompletionCreateParams } from "../types/chat.js";

export interface ServerAddress {
  /** With or without "/v1". */
  url: string;
  api_key?: string | null | undefined;
}

/** One of the models that a server serves. */
export interface RemoteModel {
  id: string;
  root?: string | null;
  /** Of an adapter: its base model. */
  parent?: string | null;
  max_model_len?: number | null;
}

/** Waits before another try of a request that changes nothing or may be repeated. */
const RETRY_DELAYS_MS = [250, 1000];

interface Exchange {
  body?: unknown;
  /** Whether doing it twice is as good as once. */
  repeatable: boolean;
  signal?: AbortSignal | undefined;
}

export class VllmServer {
  /** Without "/v1" and a slash at its end. */
  readonly url: string;
  readonly #key: string | null;

  /** @throws ValidationError at `url` when it is no address. */
  constructor({ url, api_key }: ServerAddress) {
    const base = serverUrl(url);
    if (base === null) {
      throw ValidationError.at("url", `"${url}" is no address such as http://127.0.0.1:8000`);
    }
    this.url = base.href.replace(/\/$/, "");
    this.#key = api_key ?? null;
  }

  async models(signal?: AbortSignal): Promise<RemoteModel[]> {
    const answer = await this.#json("list its models", "/v1/models", { repeatable: true, signal });
    const { data } = (answer ?? {}) as { data?: unknown };
    if (Array.isArray(data) && data.every((model) => typeof model?.id === "string")) return data as RemoteModel[];
    throw remoteUnexpected(this.url, "list its models", "no list of models");
  }

  /** Serves the adapter in a folder that the server sees under `name`, in place of one that it serves under that already. */
  async loadAdapter(name: string, path: string, signal?: AbortSignal): Promise<void> {
    const body = { lora_name: name, lora_path: path, load_inplace: true };
    await this.#send(`load ${path} as "${name}"`, "/v1/load_lora_adapter", { body, repeatable: true, signal });
  }

  async unloadAdapter(name: string, signal?: AbortSignal): Promise<void> {
    const body = { lora_name: name };
    await this.#send(`unload "${name}"`, "/v1/unload_lora_adapter", { body, repeatable: false, signal });
  }

  /** A completion that is not streamed. A sampled one is repeated only when the server was not reached. */
  async complete(params: ChatCompletionCreateParams, signal?: AbortSignal): Promise<ChatCompletion> {
    const what = `complete with "${params.model}"`;
    const answer = await this.#json(what, "/v1/chat/completions", { body: params, repeatable: true, signal });
    if (!Array.isArray((answer as ChatCompletion | null)?.choices))
      throw remoteUnexpected(this.url, what, "no choices");
    return answer as ChatCompletion;
  }

  /** Takes what the global `fetch` takes; whatever the host of an address, this server gets the request, with its own key. */
  readonly fetch: typeof fetch = (input, init) => {
    const request = new Request(input, init);
    const { pathname, search } = new URL(request.url);
    const headers = new Headers(request.headers);
    headers.delete("authorization");
    if (this.#key !== null) headers.set("authorization", `Bearer ${this.#key}`);
    return fetch(new Request(new URL(this.url + pathname + search), new Request(request, { headers })));
  };

  async #json(what: string, path: string, exchange: Exchange): Promise<unknown> {
    const response = await this.#send(what, path, exchange);
    try {
      return await response.json();
    } catch (error) {
      exchange.signal?.throwIfAborted();
      throw remoteUnexpected(this.url, what, "an answer that is no JSON", error);
    }
  }

  async #send(what: string, path: string, { body, repeatable, signal }: Exchange): Promise<Response> {
    const headers: Record<string, string> = { accept: "application/json" };
    if (this.#key !== null) headers.authorization = `Bearer ${this.#key}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    for (let attempt = 0; ; attempt++) {
      const delay = repeatable ? RETRY_DELAYS_MS[attempt] : undefined;
      try {
        const response = await fetch(this.url + path, {
          method: body === undefined ? "GET" : "POST",
          headers,
          body: body === undefined ? null : JSON.stringify(body),
          signal: signal ?? null,
        });
        if (response.ok) return response;
        const hint = (reason: string) =>
          response.status === 404 && reason === "Not Found" && what.startsWith("load ") ? missingRoute : undefined;
        const error = remoteRefused(this.url, what, response.status, await response.text(), hint);
        if (delay === undefined || ![429, 502, 503, 504].includes(response.status)) throw error;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof RemoteServerError) throw error;
        if (delay === undefined) throw remoteUnreachable(this.url, what, error);
      }
      await pause(delay, undefined, signal ? { signal } : {}).catch((error) => {
        throw signal?.reason ?? error;
      });
    }
  }
}

const missingRoute =
  "vLLM takes adapters at run time when it was started with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1";
