// Hands a request to the model, and counts it.

import { type Generation, type GenerationRequest, generate } from "../../inference/index.js";
import type { ServedModel } from "../core/resolve.js";
import type { ChatHost } from "./host.js";

/** `ended` is called when it wants nothing more of the device. @throws RateLimitError when too many requests wait */
export function startGeneration(
  host: Pick<ChatHost, "metrics">,
  { base, trained }: ServedModel,
  request: GenerationRequest,
  signal: AbortSignal | undefined,
  ended: () => void,
): Generation {
  const generation = generate(base.loop, request, signal);
  const { record } = generation;
  const adapter = trained && { name: trained.servedName, entity: trained.entity };
  host.metrics.requestStarted({ model: base.id, adapter, record });
  void generation.ended.then(() => {
    ended();
    host.metrics.requestFinished({
      model: base.id,
      promptTokens: request.promptTokens.length,
      maxTokens: request.params.maxTokens,
      record,
    });
  });
  return generation;
}
