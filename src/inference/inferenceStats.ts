// What a loop counts about its steps.

/** How one model is doing, and what it has done since it was loaded. */
export interface InferenceStats {
  /** Sequences. */
  running: number;
  waiting: number;
  /** Share of the KV cache's pages that sequences hold, 0 to 1. */
  cacheUsage: number;
  pages: number;
  preemptions: number;
  /** Prompt tokens looked up in the prefix cache, and found there. */
  cacheQueries: number;
  cacheHits: number;
  /** Of prompts that have started (cached ones included), and sampled or forced. */
  promptTokens: number;
  generatedTokens: number;
  steps: number;
  /** Rows computed for choices that had ended meanwhile. */
  discardedRows: number;
  /** Tokens over all steps, guessed ones included. */
  stepTokens: number;
  /** Times that tokens to follow were guessed (speculative decoding), the tokens so computed, and those of them that came to follow. */
  drafts: number;
  draftedTokens: number;
  keptTokens: number;
  /** Steps of at most `le` tokens, cumulative. */
  stepSizes: { le: number; count: number }[];
  /** Seconds the device computed. */
  deviceSeconds: number;
}

const STEP_SIZES = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, Number.POSITIVE_INFINITY];

/** The part of the stats that grows from step to step. */
export class StepCounts {
  promptTokens = 0;
  generatedTokens = 0;
  steps = 0;
  discardedRows = 0;
  stepTokens = 0;
  drafts = 0;
  draftedTokens = 0;
  keptTokens = 0;
  deviceSeconds = 0;
  readonly stepSizes = STEP_SIZES.map((le) => ({ le, count: 0 }));

  /** As they are now. */
  snapshot() {
    return { ...this, stepSizes: this.stepSizes.map((bucket) => ({ ...bucket })) };
  }

  step(tokens: number): void {
    this.steps++;
    this.stepTokens += tokens;
    for (let i = STEP_SIZES.length - 1; i >= 0 && tokens <= STEP_SIZES[i]!; i--) this.stepSizes[i]!.count++;
  }
}
