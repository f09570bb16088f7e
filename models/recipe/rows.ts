import { drawConversation, drawDrill } from "./conversation.js";
import { Draw } from "./draw.js";
import { render } from "./rendering.js";
import type { Encoder } from "./vocabulary.js";

/** One training row: token t is predicted from the tokens before it with weight `weights[t]` (weights[0] is unused). */
export interface Row {
  tokens: Int32Array;
  weights: Float32Array;
}

/** An endless, seeded stream of training rows made of whole conversations, each closed by <|endoftext|>. */
export class RowStream {
  readonly #draw: Draw;
  readonly #encoder: Encoder;
  readonly #end: number;
  #waiting: { tokens: number[]; weights: number[] } | undefined;

  readonly #drills: number;

  /** `drills`: the share of conversations that are drills. */
  constructor(encoder: Encoder, seed: number, drills: number) {
    this.#drills = drills;
    this.#draw = new Draw(seed, false);
    this.#encoder = encoder;
    this.#end = encoder.id("<|endoftext|>");
  }

  #conversation(): { tokens: number[]; weights: number[] } {
    const tokens: number[] = [];
    const weights: number[] = [];
    const drill = this.#drills > 0 && this.#draw.chance(this.#drills);
    const conversation = drill ? drawDrill(this.#draw) : drawConversation(this.#draw);
    for (const { text, assistant } of render(conversation)) {
      for (const id of this.#encoder.encode(text)) {
        tokens.push(id);
        weights.push(assistant ? 1 : 0);
      }
    }
    tokens.push(this.#end);
    weights.push(1);
    return { tokens, weights };
  }

  /**
   * As many conversations as fit into `length` tokens (one, if a conversation alone is longer, cut at `length`).
   * `others`: the weight of tokens the assistant does not write.
   */
  packed(length: number, others: number): Row {
    const tokens: number[] = [];
    const weights: number[] = [];
    for (;;) {
      const next = this.#waiting ?? this.#conversation();
      this.#waiting = undefined;
      if (tokens.length > 0 && tokens.length + next.tokens.length > length) {
        this.#waiting = next;
        break;
      }
      for (const token of next.tokens) tokens.push(token);
      for (const weight of next.weights) weights.push(Math.max(weight, others));
      if (tokens.length >= length) break;
    }
    return { tokens: Int32Array.from(tokens.slice(0, length)), weights: Float32Array.from(weights.slice(0, length)) };
  }

  /** One conversation, at most `longest` tokens. */
  single(longest: number, others: number): Row {
    const { tokens, weights } = this.#conversation();
    return {
      tokens: Int32Array.from(tokens.slice(0, longest)),
      weights: Float32Array.from(weights.slice(0, longest), (weight) => Math.max(weight, others)),
    };
  }
}
