import type { ChatCompletion, ChatCompletionCreateParamsNonStreaming } from "./chat.js";
import type { RequestOptions } from "./client.js";
import type { Checkpoint } from "./models.js";
import type { ExperimentalConfig } from "./training.js";

/** A sequence of tokens; entry i of every array is about token i. Natural logarithms. */
export interface TrainingRow {
  /** Token ids. */
  tokens: ArrayLike<number>;
  /** Nonzero or true: trained. The first token never is, since nothing predicts it. */
  trained: ArrayLike<number | boolean>;
  /** Policy and cross-entropy losses; default 1. */
  weights?: ArrayLike<number>;
  /** Policy losses, which need them. */
  advantages?: ArrayLike<number>;
  /** Policy losses: at sampling time; NaN (and absent): the current ones, held constant. */
  oldLogprobs?: ArrayLike<number>;
  /** What logits are divided by, 0.01 to 100: logprobs, entropies and losses are those of the softmax at it. Default 1. */
  temperatures?: ArrayLike<number>;
  /** Of a reference model, for dpo and KL-shaped advantages; default: those of the weights the session was opened with. */
  referenceLogprobs?: ArrayLike<number>;
}

/** Settings of the policy losses, as in a training job's configuration. */
export type PolicyLossOptions = Pick<
  ExperimentalConfig,
  | "epsilon"
  | "epsilon_high"
  | "importance_sampling_level"
  | "mask_prob_ratio"
  | "max_negative_advantage_importance_sampling_weight"
  | "kimi_k2_tau"
  | "variant_k2_tau"
  | "truncated_importance_sampling"
  | "kl_penalty_coef"
  | "kl_penalty_source"
  | "entropy_coef"
>;

/**
 * What the gradient is of: a `loss` of the engine, with its settings (`beta` of dpo), or derivatives that the application has
 * computed (`weights`, `entropyWeights`).
 */
export type LossChoice =
  /** Every row is one sequence of the sequence-level ratios; the mean is over all trained tokens of the call. */
  | ({ loss: NonNullable<ExperimentalConfig["loss_fn"]> } & PolicyLossOptions)
  /** Mean over all trained tokens of weight times minus the logprob. */
  | { loss: "cross_entropy" }
  /** Rows in pairs, the preferred one first. `beta` defaults to 0.1. */
  | { loss: "dpo"; beta?: number }
  /**
   * d(loss) / d(logprob) per row and token, and d(loss) / d(entropy) where the loss looks at entropies: any loss that is a
   * function of these.
   */
  | { weights: readonly ArrayLike<number>[]; entropyWeights?: readonly ArrayLike<number>[] };

/** A step of AdamW. */
export interface OptimStepParams {
  /** 0 to 1000. */
  learningRate: number;
  /** Decay of the mean of gradients, below 1. Default 0.9. */
  beta1?: number;
  /** Decay of the mean of squared gradients, below 1. Default 0.99. */
  beta2?: number;
  /** Added to the divisor, above 0, at most 1. Default 1e-8. */
  eps?: number;
  /** Decoupled decay, times the learning rate; of all weights only matrices decay, not norms and biases. Default 0.1. */
  weightDecay?: number;
  /** Gradients are clipped to this global norm; 0: no clipping. Default 0.1. */
  maxGradNorm?: number;
}

/** What the weights make of rows. */
export interface RowLogprobs {
  /** Per row, entry i about token i: 0 where it is not trained. */
  logprobs: Float32Array[];
  /** In nats, over the whole vocabulary. */
  entropies: Float32Array[];
}

/** How a session is opened. */
export interface SessionOptions {
  /** Of what kind the optimizer's moments are: those of the model's checkpoint are kept if they are of the same. Default "rl". */
  objective?: "rl" | "sft";
  /** Ends the wait for the model's place in the queue, and every call under way. */
  signal?: AbortSignal;
  /**
   * "full": all weights are trained, in a copy of the model of their own, and saved as a base model. It begins with what was
   * last saved of the model so, optimizer included; else with its base, the latest adapter added into it. Default "adapter".
   */
  weights?: "adapter";
}

/** How a session of all weights is opened. */
export interface FullSessionOptions extends Omit<SessionOptions, "weights"> {
  /** All weights rather than an adapter. */
  weights: "full";
}

/** All weights of a model, saved as a folder in Hugging Face's layout in the home. */
export interface SavedWeights {
  /** The base model that they are served as, also after the home is opened again: models can be made from it. */
  base_model: string;
  /** config.json, safetensors, tokenizer and templates; in `training_state` what training goes on from. */
  path: string;
  /** Optimizer steps behind them. */
  steps: number;
  /** ISO 8601. */
  created_at: string;
  /** Of all its files. */
  bytes: number;
  /** False: there is no memory to serve them beside what is loaded (they are kept all the same), or others were saved under the name meanwhile. */
  served: boolean;
}

/** What `saveState` is told. */
export interface SaveStateParams {
  /** Of the new checkpoint. */
  metrics?: Record<string, number>;
}

/** What `saveState` of a session of all weights is told. */
export interface SaveWeightsParams {
  /**
   * The base model's name: what was saved under it before is replaced, at once or not at all. Default: the name of what was last
   * saved of the model, else `PROJECT/NAME-full`.
   */
  name?: string;
}

/** A model's weights in training. Holds the model's place in the job queue until closed; calls run one after the other. */
export interface TrainingSession<Saved = Checkpoint> extends AsyncDisposable {
  /** Names the session, for `trainingSessions`. */
  readonly id: string;
  /** The model that it holds. */
  readonly modelId: string;
  /** Logprobs and entropies of the trained tokens on the weights as they are now, bitwise those of sampling. */
  logprobs(rows: readonly TrainingRow[]): Promise<RowLogprobs>;
  /**
   * Adds to the gradient; the rows of one call share one reduction. `metrics`: of the loss, name to value. A rejection
   * clears the gradient: ConflictError with code "weights_diverged" where the logprobs are not finite any more.
   */
  forwardBackward(
    rows: readonly TrainingRow[],
    loss: LossChoice,
  ): Promise<RowLogprobs & { metrics: Record<string, number> }>;
  /**
   * Clips, makes one AdamW step, clears the gradient. `gradNorm`: before clipping. A norm that is not finite leaves the
   * weights as they were; only a model that is trained elsewhere may be changed by a step whose norm, which is not told, is NaN.
   */
  optimStep(params: OptimStepParams): Promise<{ gradNorm: number }>;
  /** A completion on the weights as they are now. An abort ends it alone: the session goes on. */
  sample(
    params: Omit<ChatCompletionCreateParamsNonStreaming, "model" | "stream">,
    options?: RequestOptions,
  ): Promise<ChatCompletion>;
  /** A new checkpoint, servable at once; of a session that trains all weights, a base model. */
  saveState(params?: Saved extends SavedWeights ? SaveWeightsParams : SaveStateParams): Promise<Saved>;
  /** What was not saved is gone. */
  close(): Promise<void>;
}
