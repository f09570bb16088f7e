import type { ToolFormat } from "../toolFormats.js";
import type { Precision } from "./devices.js";
import type { Logger } from "./logger.js";

/** Type of a model's weights in memory; "auto": that of its files. */
export type DType = "auto" | "float32" | "bfloat16";

/**
 * What weights are quantised to while they are loaded: "int16" takes 16.1 bits a weight, "q8" 8.5, "q4" about 5. See
 * `ModelOptions.quantize`.
 */
export type Quantization = "int16" | "q8" | "q4";

/** What a KV cache holds: keys and values as they are computed, or rounded to 8 bits with a scale for every position and head. */
export type KvCache = "exact" | "int8";

/** How ONNX Runtime computes a model. */
export interface OnnxOptions {
  /**
   * Which of a folder's graphs: what transformers.js calls `dtype`, such as "fp32", "fp16", "q4", "int8". Default: the one that
   * config.json names, else "fp32", else the only one.
   */
  variant?: string;
  /** What computes: "cpu" (the default), or another that onnxruntime-node has on this machine, such as "cuda", "dml", "coreml". */
  executionProvider?: string;
}

/** A base model to serve. */
export interface ModelOptions {
  /** The name that requests use; default: the folder's name. */
  id?: string;
  /**
   * A Hugging Face folder: weights as safetensors, else as ONNX; or a GGUF file; or the name of a model of the hub that was pulled before,
   * `OWNER/NAME` or `OWNER/NAME@REVISION`.
   */
  path: string;
  /** Type of the weights in memory; default: that of the folder's files. */
  dtype?: DType;
  /**
   * Quantise the weights while they are loaded: "q8" to 8.5 bits a weight, "q4" to about 5. Then an adapter can be trained,
   * but not the weights. Default: as the files have them.
   *
   * "int16" takes as much memory as bfloat16, and is as exact: integers that processors without instructions for bfloat16 multiply
   * 1.3 to 1.6 times as fast as floats, in prompts, training and steps of many sequences. With `dtype: "float32"` its gradients are
   * more than ten times nearer to those of float32 than bfloat16's. On processors alone.
   */
  quantize?: Quantization;
  /**
   * What the KV cache holds: "exact", keys and values as they are computed, or "int8", rounded to 8 bits with a scale for every
   * position and head, in about half the memory of bfloat16. Training sees the same. Default "exact".
   */
  kvCache?: KvCache;
  /** KV pages of 64 positions that all its sequences share; default: from the memory there is. */
  kvPages?: number;
  /** Computes the folder's ONNX, also where it has weights of the other kind. */
  onnx?: OnnxOptions;
}

/** AdamW with decoupled decay. */
export interface OptimizerOptions {
  /** Decay of the mean of gradients, at least 0 and below 1. */
  beta1?: number;
  /** Decay of the mean of their squares, at least 0 and below 1. */
  beta2?: number;
  /** Added to the divisor, above 0, at most 1. */
  eps?: number;
  /** Decoupled decay, times the learning rate, 0 to 1000; of all weights only matrices decay, not norms and biases. */
  weightDecay?: number;
  /** Gradients are clipped to this global norm; 0: not at all. */
  maxGradNorm?: number;
}

/** What an engine serves, with what, and how. What is no option, or out of range, is a ValidationError that names it. */
export interface EngineOptions {
  /** Folder for everything durable, made if it is not there. Absent: nothing is kept after `close()`. */
  home?: string | null;
  /** Base models to serve; the first is the default of requests that name none. Absent: the embedded one, "anneal/tiny". */
  models?: readonly (ModelOptions | string)[];
  /**
   * What computes: "cpu", the default; "gpu", a discrete GPU or else an integrated one; "vulkan:0" and on, a device of `listDevices`;
   * "auto": "gpu" where that computes all of `models`, gives the processor's bits, fuses multiply-adds, and has memory for them, each
   * with one full context, else "cpu". On a GPU adapters are trained there, and all weights, in a
   * copy, by the processor.
   */
  device?: "auto" | "cpu" | "gpu" | `vulkan:${number}`;
  /**
   * Of a GPU whose memory does not suffice: the layers of every model that it computes, the last ones, with the head. The others are
   * computed by the processor, in its memory, with the same bits; 0: all of them. No more than the models have. Default: all layers
   * are the GPU's.
   */
  gpuLayers?: number;
  /**
   * What models are multiplied with: "exact", the default, gives the same bits on every device that can; "fast" takes the matrix unit
   * of a processor (AMX, of Intel's from Sapphire Rapids on, on Linux) or a GPU's cooperative matrices for models in bfloat16, which
   * is about three times as fast in prefill and training. AMX has bits of its own, the same on every processor that has it; a GPU's are
   * its own. Replies and training agree bit for bit either way, and adapters record which it was. What has no such unit is refused;
   * `listDevices` says what each device has.
   */
  precision?: Precision;
  /** Type of every model that does not set its own. */
  dtype?: DType;
  /** How models in ONNX are computed that do not say it themselves. */
  onnx?: OnnxOptions;
  /** Quantises every model that does not say for itself. */
  quantize?: Quantization;
  /** What the KV cache of every model holds that does not say for itself. Default "exact". */
  kvCache?: KvCache;
  /** Compute threads of the process, 256 at most; default: its cores. */
  threads?: number;
  /**
   * Bytes that weights, KV pages, adapters and training may take; default: for weights and pages three quarters of what is available.
   * Without a limit, what passes of a job took stays for the next one for a minute, where it is no more than a quarter of what is left.
   */
  memoryLimit?: number;
  /** Where the engine says what it does. Default: it says nothing. */
  logger?: Logger;
  /** The owner's entity, that of models made without naming one; default "local". */
  entity?: string;
  /** The owner's API key for this run, instead of the one kept in the home: printable ASCII without spaces. */
  apiKey?: string;
  /**
   * Refuse base models whose weights are not those that the home first saw under their names, and read all of them to know;
   * default false: say so in the log, soon after opening where their files look as they did when they were last read.
   * Checkpoints are always compared with what was written, by each process when it first reads them and when their files
   * have changed since.
   */
  verify?: boolean;
  /** How tool calls are read from a model's text; default "auto": from its chat template. */
  toolParser?: "auto" | "none" | ToolFormat;
  /** "priority": lower `priority` runs earlier; default "fcfs": requests run in order, and a priority is refused. */
  scheduler?: "fcfs" | "priority";
  /**
   * What tokens to come are guessed from, several of which one step can then compute: "prompt_lookup" (default), places in
   * the prompt and the reply where the same tokens stood before; "none". Replies and logprobs do not depend on it.
   */
  speculation?: "prompt_lookup" | "none";
  /** Sampling settings that a request leaves out: the model folder's (default), or none at all. */
  samplingDefaults?: "model" | "neutral";
  /** Longest context of a sequence in tokens; default and most: the model's; at least 2. */
  contextLength?: number;
  /** Sequences computed at once, 4096 at most and no more than `tokenBudget`; default 64. */
  maxSequences?: number;
  /** Tokens computed in one step, 16 to 65536; default 512. */
  tokenBudget?: number;
  /** Requests waiting before further ones are refused with 429; default 2048. */
  maxQueue?: number;
  /**
   * Adapter versions kept loaded while nobody uses them, as far as they fit an eighth of the memory that the models leave, but one
   * at least; default 16.
   */
  maxIdleAdapters?: number;
  /** Models that jobs train at once; jobs of further ones wait. They share the memory for activations. Default 4. */
  maxTrainingJobs?: number;
  /** What one optimizer step of an RL job sees; default "group". */
  optimizerStep?: "group" | "completion" | "job";
  /**
   * Of `rl` and of `sft` jobs and sessions. Default for both: betas 0.9 and 0.99, eps 1e-8. RL: weightDecay 0.1, maxGradNorm
   * 0.1; SFT: weightDecay 0, maxGradNorm 1.
   */
  optimizer?: { rl?: OptimizerOptions; sft?: OptimizerOptions };
  /**
   * Adapters of new models: `rank` (1 to 1024, default 8), `alpha` (above 0, default 16) and `targets`, the modules of layers
   * that have one, by PEFT's names (default: all that the model has).
   */
  adapter?: { rank?: number; alpha?: number; targets?: readonly string[] };
  /**
   * Folders from which requests may name files; default: the home and the system's temporary folder for the owner, none for
   * the bearers of other keys. What the engine keeps in its home is the owner's alone in any case.
   */
  dataRoots?: readonly string[];
  /** Hosts from which `http(s):` training data may be read; default: none. */
  allowedHosts?: readonly string[];
}

/**
 * How an engine is opened whose models a server with Tinker's HTTP interface computes: home, jobs, templates and tokenizers stay on
 * this machine. Options about computing on this machine are refused.
 */
export interface TinkerOptions
  extends Omit<
    EngineOptions,
    | "apiKey"
    | "device"
    | "gpuLayers"
    | "precision"
    | "dtype"
    | "onnx"
    | "quantize"
    | "kvCache"
    | "threads"
    | "memoryLimit"
    | "verify"
    | "scheduler"
    | "speculation"
    | "maxSequences"
    | "tokenBudget"
  > {
  /** What the server speaks. */
  protocol: "tinker";
  /** The server's key. Default: none is sent. */
  apiKey?: string | null;
  /** What the server calls the base model. Default: the only one that it has, else the one called like ours. */
  baseModel?: string;
  /** Milliseconds for which a server that does not answer, or is overloaded, is asked again; default 120000. */
  patienceMs?: number;
}
