// Sampling state on the device: a slot per sampled sequence, from its first step until it has ended and no step in
// flight names it any more.

import type { DeviceModel, SlotParams } from "../runtime/runtime.js";
import { type SamplingNumbers, samplingNumbers } from "../samplingNumbers.js";
import type { Sequence } from "./sequence.js";
import { endIds, knownIds } from "./stopping.js";

/** Opens and closes the slots of one model. */
export class SamplerSlots {
  /** Many choices of one request may open at once. */
  private readonly shared = new WeakMap<Sequence["request"], SharedParams>();

  constructor(private readonly device: DeviceModel) {}

  /** Opens the slot of a sequence that has none. @throws BadRequestError for settings that the device refuses */
  open(sequence: Sequence): void {
    if (sequence.slot >= 0 || !sequence.samples) return;
    const { request, owner, index } = sequence;
    const shared = this.shared.get(request) ?? sharedParams(request, this.device.config.vocab);
    this.shared.set(request, shared);
    sequence.slot = this.device.openSlot({
      ...shared,
      // Choice i samples as the first choice of a request with seed + i does; seeds wrap at 64 bits.
      seed: BigInt.asIntN(64, owner.seed + BigInt(index)),
      grammar: request.grammar?.matcher() ?? null,
    });
  }

  /**
   * Closes the slot of a sequence that has ended, unless a step in flight still names it: the last of them closes it.
   */
  close(sequence: Sequence): void {
    if (sequence.inFlight > 0) return;
    if (sequence.slot >= 0) this.device.closeSlot(sequence.slot);
    sequence.slot = -1;
  }
}

/** What is the same for all choices of a request. */
type SharedParams = Omit<SlotParams, "seed" | "grammar">;

function sharedParams(request: Sequence["request"], vocab: number): SharedParams {
  const { params } = request;
  return {
    ...(Object.fromEntries(samplingNumbers.map(({ key }) => [key, params[key]])) as unknown as SamplingNumbers),
    choice: 0,
    minTokens: params.minTokens,
    endIds: params.minTokens > 0 ? endIds(params, vocab) : new Int32Array(0),
    biasIds: Int32Array.from(params.logitBias, ([id]) => id),
    biasValues: Float32Array.from(params.logitBias, ([, bias]) => bias),
    allowedIds: params.allowedTokenIds === null ? null : Int32Array.from(new Set(params.allowedTokenIds)).sort(),
    badWords: params.badWords.map((word) => Int32Array.from(word)),
    prompt: params.repetitionPenalty === 1 ? new Int32Array(0) : Int32Array.from(request.promptTokens),
    topLogprobs: params.logprobs ?? -1,
    logprobIds: params.logprobTokenIds === null ? null : Int32Array.from(params.logprobTokenIds),
    thinking: params.thinking,
    stopIds: knownIds(params.stopTokenIds, vocab),
    thoughtIds: request.thoughtIds ?? new Int32Array(0),
  };
}
