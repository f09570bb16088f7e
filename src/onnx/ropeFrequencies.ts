// Rotary frequencies as Hugging Face's `transformers` computes them: default, linear, Llama 3 (piecewise by wavelength), YaRN
// (Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models") and LongRoPE (Ding et al. 2024).

import type { RopeSpec } from "../runtime/runtime.js";

export interface RopeFrequencies {
  /** Radians per position, [width / 2]. */
  frequencies: Float32Array;
  /** Multiplies cosines and sines. */
  attentionFactor: number;
}

/** Of `width` elements of a head that turn, in a model for so many positions. */
export function ropeFrequencies(rope: RopeSpec, width: number, maxPositions: number): RopeFrequencies {
  const plain = Array.from({ length: width / 2 }, (_, i) => rope.theta ** ((-2 * i) / width));
  const of = (frequencies: number[], attentionFactor = 1) => ({
    frequencies: Float32Array.from(frequencies),
    attentionFactor,
  });
  switch (rope.type) {
    case "none":
      return of(plain.map(() => 0));
    case "default":
      return of(plain);
    case "linear":
      return of(plain.map((frequency) => frequency / rope.factor));
    case "proportional": {
      const turning = Math.trunc((rope.rotaryShare * width) / 2);
      return of(plain.map((frequency, i) => (i < turning ? frequency / rope.factor : 0)));
    }
    case "llama3":
      return of(plain.map((frequency) => llama3(rope, frequency)));
    case "yarn":
      return of(yarn(rope, width, plain), yarnAttentionFactor(rope));
    case "longrope": {
      const factors = maxPositions > rope.originalMaxPositions ? rope.longFactors : rope.shortFactors;
      return of(
        plain.map((frequency, i) => frequency / factors[i]!),
        rope.attentionFactor,
      );
    }
  }
}

function llama3(rope: RopeSpec, frequency: number): number {
  const { factor, lowFreqFactor, highFreqFactor, originalMaxPositions } = rope;
  const wavelength = (2 * Math.PI) / frequency;
  if (wavelength > originalMaxPositions / lowFreqFactor) return frequency / factor;
  if (wavelength < originalMaxPositions / highFreqFactor) return frequency;
  const smooth = (originalMaxPositions / wavelength - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
  return ((1 - smooth) * frequency) / factor + smooth * frequency;
}

function yarn(rope: RopeSpec, width: number, plain: readonly number[]): number[] {
  // The element that turns so many times over the original context.
  const element = (turns: number) =>
    (width * Math.log(rope.originalMaxPositions / (turns * 2 * Math.PI))) / (2 * Math.log(rope.theta));
  let low = element(rope.betaFast);
  let high = element(rope.betaSlow);
  if (rope.truncate) {
    low = Math.floor(low);
    high = Math.ceil(high);
  }
  low = Math.max(low, 0);
  high = Math.min(high, width - 1);
  if (low === high) high += 0.001;
  return plain.map((frequency, i) => {
    const interpolated = Math.min(Math.max((i - low) / (high - low), 0), 1);
    return (frequency / rope.factor) * interpolated + frequency * (1 - interpolated);
  });
}

function yarnAttentionFactor({ factor, attentionFactor, mscale, mscaleAllDim }: RopeSpec): number {
  if (attentionFactor > 0) return attentionFactor;
  const scale = (by: number) => (factor <= 1 ? 1 : 0.1 * by * Math.log(factor) + 1);
  return mscale > 0 && mscaleAllDim > 0 ? scale(mscale) / scale(mscaleAllDim) : scale(1);
}
