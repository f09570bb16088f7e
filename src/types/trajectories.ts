// Made of src/schemas/trajectories.ts by `npm run generate`: change those.

/** What was measured of logged trajectories. */
export interface LogResult {
  /** The step whose checkpoint the metrics were attached to. */
  step: number;
  /** Name, under the split, to value. */
  metrics: Record<string, number>;
}

/**
 * A call: its `id`, which the tool's message repeats, and the `function` with `name` and `arguments` (JSON, as the
 * model wrote it). Calls other than of functions are refused when they are given; their type is here so that other
 * libraries' messages fit.
 */
export type TrajectoryToolCall =
  | { id: string; type: "function"; function: { name: string; arguments: string } }
  | { id: string; type: "custom" };

/** A sampled token and how likely it was. */
export interface TrajectoryLogprob {
  /** The token's text, or `token_id:N`. */
  token: string;
  /** Natural logarithm, temperature 1, before any filter. */
  logprob: number;
  /**
   * At the temperature in the choice's `sampling_settings`, before any filter; the token is then trained at that
   * temperature.
   */
  temperature_logprob?: number | null;
  /** UTF-8 of the token's text. */
  bytes?: number[] | null;
  /** The likeliest tokens there (`token`, `logprob`, `bytes`); not read by training. */
  top_logprobs?:
    | {
        token: string;
        logprob: number;
        bytes?: number[] | null;
      }[]
    | null;
}

/**
 * What a model answered, as the completion's choice: trained when it carries logprobs. Fields beyond these are kept.
 */
export interface TrajectoryChoice {
  /** Its place among the completion's choices; not read by training. */
  index?: number | null;
  /** Why it ended. */
  finish_reason: string | null;
  /** What was answered: `role`, `content` and `tool_calls`. */
  message: {
    role: string;
    content?: string | null;
    tool_calls?: TrajectoryToolCall[] | null;
  };
  /** In `content`, of every sampled token. Without them the choice is context. */
  logprobs?: {
    content?: TrajectoryLogprob[] | null;
  } | null;
  /** The whole prompt that the choice continues. Default: rendered again. */
  prompt_token_ids?: number[] | null;
  /** The sampled tokens, the end token included. Default: from `logprobs`. */
  token_ids?: number[] | null;
  /**
   * What made the sampling differ from the plain policy (temperature, filters, penalties, masks); set by the engine.
   */
  sampling_settings?: unknown;
}

/** A part of a message's content; parts other than text are refused by text models. */
export interface TrajectoryContentPart {
  /** What the part is, such as "text". */
  type: string;
  /** The text of a part that is one. */
  text?: string;
}

/** A conversation message: context, never trained. Fields beyond these are kept. */
export interface TrajectoryMessage {
  /** Who says it. */
  role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  /** What is said. */
  content?: string | TrajectoryContentPart[] | null;
  /** Of the one who says it, where the template shows it. */
  name?: string | null;
  /** Of an assistant: the functions that it called. */
  tool_calls?: TrajectoryToolCall[] | null;
  /** Of a tool: the call that it answers. */
  tool_call_id?: string | null;
}

/** Told apart by shape: a choice has `message` and `finish_reason`, a message has `role`. */
export type MessageOrChoice = TrajectoryChoice | TrajectoryMessage;

/** A function that the model could call. */
export interface TrajectoryTool {
  /** What the tool is. Default: "function". */
  type?: "function" | null;
  /** The function. */
  function?: {
    /** The function's name. */
    name: string;
    /** What it does, for the model. */
    description?: string | null;
    /** JSON Schema of its arguments. */
    parameters?: Record<string, unknown> | null;
    /** Whether its arguments follow the schema exactly. */
    strict?: boolean | null;
  };
}

/** A conversation of a trajectory. */
export interface TrajectoryHistory {
  /** The conversation, in order. */
  messages_and_choices: MessageOrChoice[];
  /** Functions that the model could call. Default: none. */
  tools?: TrajectoryTool[] | null;
}

/** One attempt: what was said, and its reward. */
export interface Trajectory {
  /** The conversation, in order. */
  messages_and_choices: MessageOrChoice[];
  /** Functions that the model could call. Default: none. */
  tools?: TrajectoryTool[] | null;
  /** Further conversations of the same attempt, trained with the same reward. Default: none. */
  additional_histories?: TrajectoryHistory[] | null;
  /** How good it was: compared with the others of its group. Right or wrong is a reward too: 1 or 0. */
  reward: number;
  /** Step of the policy at the first turn. */
  initial_policy_version?: number | null;
  /** Step of the policy at the last turn. Default: that of the first. */
  final_policy_version?: number | null;
  /**
   * Name to value; true and false are 1 and 0. NaN, which JSON writes as null, is left out. Their means are metrics of
   * the step.
   */
  metrics?: Record<string, number | boolean | null> | null;
  /** Whatever belongs to it; kept, without a meaning for training. */
  metadata?: Record<string, number | string | boolean | null> | null;
  /** Lines to keep with it. */
  logs?: string[] | null;
  /** ISO 8601; what templates that show the time say. Default: now. */
  start_time?: string | null;
}

/** An attempt that failed. */
export interface TrajectoryException {
  /** Its class. */
  type: string;
  /** Its message. */
  message: string;
  /** Where it was thrown. */
  traceback?: string | null;
}

/** Trajectories of the same scenario: their rewards are compared with each other. */
export interface TrajectoryGroup {
  /** The attempts. Where all rewards are equal, nothing is learned. */
  trajectories: Trajectory[];
  /** Attempts that failed: counted, never trained. */
  exceptions?: TrajectoryException[] | null;
  /**
   * Name to value; true and false are 1 and 0. NaN, which JSON writes as null, is left out. Their means are metrics of
   * the step.
   */
  metrics?: Record<string, number | boolean | null> | null;
  /** Whatever belongs to it; kept, without a meaning for training. */
  metadata?: Record<string, number | string | boolean | null> | null;
  /** Lines to keep with it. */
  logs?: string[] | null;
}

/** A group as it was logged, by a training job (split "train") or by `log`. */
export interface LoggedGroup {
  /** Its id, which pages go by. */
  id: string;
  /** The step it was logged at: for the groups of a job the one they were sampled with. */
  step: number;
  /** "train" for the groups of jobs, else as it was logged. */
  split: string;
  /** The group. */
  group: TrajectoryGroup;
  /** ISO 8601. */
  recorded_at: string;
}

/** Trajectories to log. */
export interface LogParams {
  /** What the groups are for: for example "val". */
  split: string;
  /** The groups, stored and measured. At most 1000000 entries. */
  trajectory_groups: TrajectoryGroup[];
  /** Of the checkpoint that they were gathered with. A whole number, at least 0. Default: the latest. */
  step?: number | null;
}
