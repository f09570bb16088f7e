// The way into the room: a loop per model, and `generate` to ask it.

import { beamSearch } from "./beamSearch.js";
import type { ModelLoop } from "./inferenceLoop.js";
import type { Generation, GenerationRequest } from "./request.js";

export { CompletionLoop } from "./completionLoop.js";
export type { EmbeddingInput, Pooling } from "./embeddingRequest.js";
export { InferenceLoop, type InferenceLoopOptions, type ModelLoop } from "./inferenceLoop.js";
export type { InferenceStats } from "./inferenceStats.js";
export { PAGE_SIZE, PageGroups } from "./pageGroups.js";
export type * from "./request.js";

/**
 * Answers a request whose settings are resolved, by sampling or, where it asks for beams, by beam search. Iterating rejects
 * with `signal.reason` after an abort; leaving the iteration early aborts.
 * @throws RateLimitError when too many requests wait; ClosedError after the loop has been closed
 */
export function generate(loop: ModelLoop, request: GenerationRequest, signal?: AbortSignal): Generation {
  return request.params.beam === null ? loop.submit(request, signal) : beamSearch(loop, request, signal);
}
