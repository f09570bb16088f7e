import type { EmbeddingsResource, RequestOptions } from "../../types/client.js";
import type { EmbeddingCreateParams, EmbeddingList } from "../../types/embeddings.js";
import { chatHost } from "../chat/host.js";
import type { View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";

export class Embeddings implements EmbeddingsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  async create(params: EmbeddingCreateParams, options?: RequestOptions): Promise<EmbeddingList> {
    const { caller, strict } = this.#view;
    const encoder = this.#core.encoders.get(params?.model ?? "");
    if (encoder) {
      const { createEncoderEmbeddings } = await import("../embeddings/encoderEmbeddings.js");
      return createEncoderEmbeddings(encoder, params, { strict, signal: options?.signal });
    }
    const { createEmbeddings } = await import("../embeddings/createEmbeddings.js");
    return createEmbeddings(chatHost(this.#core), params, { caller, strict, signal: options?.signal });
  }
}
