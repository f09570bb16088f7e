import type { FinishReason } from "../../types/chat.js";
import type { AnnealClient } from "../../types/client.js";
import type { ChatMessage } from "../../types/messages.js";

export interface SamplingSettings {
  temperature: number | undefined;
  max_completion_tokens: number | undefined;
  seed: number | undefined;
}

/** A piece of a reply. */
export interface Piece {
  kind: "thought" | "content";
  text: string;
}

/** What was said so far, to one model at a time. */
export class Conversation {
  readonly client: AnnealClient;
  /** null: the client's first base model. */
  model: string | null;
  /** What the model is told first. */
  system: string | null;
  readonly #settings: SamplingSettings;
  #said: ChatMessage[] = [];

  constructor(client: AnnealClient, model: string | null, system: string | null, settings: SamplingSettings) {
    this.client = client;
    this.model = model;
    this.system = system;
    this.#settings = settings;
  }

  get messages(): readonly ChatMessage[] {
    return this.system === null ? this.#said : [{ role: "system", content: this.system }, ...this.#said];
  }

  reset(): void {
    this.#said = [];
  }

  /**
   * Asks for a reply. When aborted, as much of it as came is what was said; when it fails or nothing came, nothing was.
   * @returns why it ended, null when it was aborted.
   */
  async reply(content: string, show: (piece: Piece) => void, signal: AbortSignal): Promise<FinishReason | null> {
    const messages: ChatMessage[] = [...this.messages, { role: "user", content }];
    const model = this.model ?? undefined;
    let text = "";
    let ended: FinishReason | null = null;
    try {
      const request = { messages, model, ...this.#settings, stream: true as const };
      for await (const { choices } of await this.client.chat.completions.create(request, { signal })) {
        const { delta, finish_reason } = choices[0] ?? {};
        if (delta?.reasoning) show({ kind: "thought", text: delta.reasoning });
        if (delta?.content) show({ kind: "content", text: delta.content });
        text += delta?.content ?? "";
        ended = finish_reason ?? ended;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (text !== "" || ended !== null) {
      this.#said.push({ role: "user", content }, { role: "assistant", content: text });
    }
    return ended;
  }
}
