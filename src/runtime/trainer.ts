/** Training on a device; see device.ts. */

export interface AdapterSpec {
  rank: number;
  alpha: number;
  /** Scale alpha / sqrt(rank) instead of alpha / rank. */
  rslora: boolean;
  /**
   * Of the model's: q_proj, k_proj, v_proj (or qkv_proj), o_proj, gate_proj, up_proj (or gate_up_proj), down_proj; of layers with
   * a delta rule in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, out_proj; of LFM2 in_proj, and out_proj, w1, w2, w3 for the others.
   */
  targets: string[];
}

/**
 * Row-major float32 tensors by name: "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" for adapters
 * (PEFT's), "model.layers.0.self_attn.q_proj.weight" for weights (Hugging Face's).
 */
export type NamedTensors = Map<string, { shape: number[]; data: Float32Array }>;

/** Weights and moments that a device elsewhere keeps: what `trainAdapter` and `loadAdapter` can go on from there. */
export interface KeptState {
  /** The device's own name of it. */
  name: string;
  /** Optimizer steps behind it. */
  steps: number;
}

export interface TrainRow {
  tokens: Int32Array;
  /** Index t is 1 when the prediction of token t + 1 is wanted; absent: all. */
  trained?: Uint8Array;
  /**
   * Index t is what the logits that predict token t + 1 are divided by, 1e-6 to 1e6; absent: 1. Logprobs and entropies are then
   * of the softmax at that temperature.
   */
  temperatures?: Float32Array;
  /** Index of an earlier row whose first `prefixLength` tokens this row continues: they are computed once. */
  prefix?: number;
  prefixLength?: number;
}

export interface PassResult {
  /** Per row: index t holds the natural-log probability of token t + 1 given tokens 0..t; the last entry is 0. */
  logprobs: Float32Array[];
  /** Per row, aligned the same way, in nats over the whole vocabulary; NaN where the device does not tell them. */
  entropies: Float32Array[];
}

/** What training goes on from. */
export type StatePart = "value" | "moment1" | "moment2";

/** What only a trainer in this process can do. */
export interface ResidentTrainer {
  /** Keeps a copy of values and moments, in place of the one before. */
  hold(): Promise<void>;
  /**
   * Of that copy, a part's tensors as float32, in the order of `tensors()`: each piece is good until the next one is asked for.
   * They wait for no passes.
   */
  pieces(part: StatePart): AsyncIterable<Uint8Array>;
  /**
   * Nothing is asked of the trainer until `resume`: the gradient goes, and memory of passes as when it is closed. False: the
   * device has not so much left that its weights should stay; then it is to be closed.
   */
  rest(): Promise<boolean>;
  resume(): void;
  /** After `close`: resolves when its memory has been given back. */
  closed(): Promise<void>;
}

export interface Trainer {
  readonly steps: number;
  /** Absent: it is elsewhere. */
  readonly here?: ResidentTrainer;
  /**
   * Of a trainer elsewhere: has its weights and moments kept there, or goes back to what is kept. Such a trainer's moments are
   * not read or written.
   */
  readonly elsewhere?: { keep(): Promise<KeptState>; goBack(kept: KeptState): Promise<void> };
  /**
   * Forward with activations kept on the native side. The pass and its backward take `memoryBudget` bytes at most (0 or
   * absent: no limit); where that is not enough even with all layers computed again in backward, it rejects with code
   * "insufficient_memory" and says what is needed. Up to `keepBytes` (absent: the budget) layers are kept rather than
   * computed again. The numbers do not depend on either. `entropyGradient`: backward may be given derivatives by
   * entropies, at the price of one more product with the head.
   */
  forward(
    rows: TrainRow[],
    options?: { memoryBudget?: number; keepBytes?: number; entropyGradient?: boolean; signal?: AbortSignal },
  ): Promise<TrainPass>;
  /**
   * No activations kept. `adapter`: a version id, 0 the base, absent this trainer's own weights. `memoryBudget` as of
   * `forward`.
   */
  evaluate(
    rows: TrainRow[],
    options?: { adapter?: number; memoryBudget?: number; signal?: AbortSignal },
  ): Promise<PassResult>;
  /**
   * Bytes that training over such passes takes, the most at one time, told without taking them: of the passes, one after the
   * other (`trained` forward and backward), and of the weights that are trained, with all that their steps need. Null where the
   * device does not tell; rejects as `forward` does where the budget is not enough for one of them.
   */
  memory?(
    passes: { trained: TrainRow[][]; evaluated: TrainRow[][] },
    options: { memoryBudget: number; entropyGradient?: boolean },
  ): Promise<{ passes: number; state: number } | null>;
  /** Clips by global norm (0: no clipping), one AdamW step with decoupled decay, gradients cleared. A gradNorm that is not finite left the weights as they were, unless `isApplied` says otherwise: a device elsewhere may not tell it. */
  optimStep(settings: {
    learningRate: number;
    beta1: number;
    beta2: number;
    eps: number;
    weightDecay: number;
    maxGradNorm: number;
  }): Promise<{ gradNorm: number; isApplied?: boolean }>;
  zeroGrad(): Promise<void>;
  /** The current weights as a version the sampler can use (immutable; same bits as the trainer's forward). 0 when the base itself is trained. */
  publish(): Promise<number>;
  tensors(): readonly { name: string; shape: number[] }[];
  /** Of all tensors, or of the one that is named, where the trainer is not elsewhere. */
  read(part: StatePart | "gradient", tensor?: string): Promise<NamedTensors>;
  /** `steps` sets the optimizer's step count (bias correction). */
  write(part: StatePart, tensors: NamedTensors, steps?: number): Promise<void>;
  close(): void;
}

export interface TrainPass extends PassResult {
  /**
   * Accumulates the gradient of a loss whose derivatives by each logprob, and by each entropy, are given (same lengths as
   * logprobs). Frees the activations.
   */
  backward(dLogprobs: Float32Array[], dEntropies?: Float32Array[]): Promise<void>;
  close(): void;
}
