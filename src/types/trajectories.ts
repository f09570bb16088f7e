/** A part of a message's content; parts other than text are refused by text models. */
export interface TrajectoryContentPart {
  type: string;
  text?: string;
}

/** Calls other than of functions are refused when they are given; their type is here so that other libraries' messages fit. */
export type TrajectoryToolCall =
  | { id: string; type: "function"; function: { name: string; arguments: string } }
  | { id: string; type: "custom" };

/** A conversation message: context, never trained. Fields beyond these are kept. */
export interface TrajectoryMessage {
  role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  content?: string | TrajectoryContentPart[] | null;
  name?: string | null;
  tool_calls?: TrajectoryToolCall[] | null;
  tool_call_id?: string | null;
}

export interface TrajectoryLogprob {
  /** The token's text, or `token_id:N`. */
  token: string;
  /** Natural logarithm, temperature 1, before any filter. */
  logprob: number;
  /** At the temperature in the choice's `sampling_settings`, before any filter; the token is then trained at that temperature. */
  temperature_logprob?: number | null;
  bytes?: number[] | null;
  top_logprobs?: { token: string; logprob: number; bytes?: number[] | null }[] | null;
}

/** What a model answered, as the completion's choice: trained when it carries logprobs. Fields beyond these are kept. */
export interface TrajectoryChoice {
  index?: number | null;
  finish_reason: string | null;
  message: {
    role: string;
    content?: string | null;
    tool_calls?: TrajectoryToolCall[] | null;
  };
  logprobs?: { content?: TrajectoryLogprob[] | null } | null;
  /** The whole prompt that the choice continues. */
  prompt_token_ids?: number[] | null;
  /** The sampled tokens, the end token included. */
  token_ids?: number[] | null;
  /** What made the sampling differ from the plain policy (temperature, filters, penalties, masks); set by the engine. */
  sampling_settings?: unknown;
}

/** Told apart by shape: a choice has `message` and `finish_reason`, a message has `role`. */
export type MessageOrChoice = TrajectoryMessage | TrajectoryChoice;

export interface TrajectoryTool {
  type?: "function" | null;
  function?: {
    name: string;
    description?: string | null;
    parameters?: Record<string, unknown> | null;
    strict?: boolean | null;
  };
}

export interface TrajectoryHistory {
  messages_and_choices: MessageOrChoice[];
  tools?: TrajectoryTool[] | null;
}

export interface Trajectory extends TrajectoryHistory {
  additional_histories?: TrajectoryHistory[] | null;
  reward: number;
  /** Step of the policy at the first and at the last turn. */
  initial_policy_version?: number | null;
  final_policy_version?: number | null;
  metrics?: Record<string, number | boolean> | null;
  metadata?: Record<string, number | string | boolean | null> | null;
  logs?: string[] | null;
  /** ISO 8601. */
  start_time?: string | null;
}

export interface TrajectoryException {
  type: string;
  message: string;
  traceback?: string | null;
}

/** Trajectories of the same scenario: their rewards are compared with each other. */
export interface TrajectoryGroup {
  trajectories: Trajectory[];
  exceptions?: TrajectoryException[] | null;
  metrics?: Record<string, number | boolean> | null;
  metadata?: Record<string, number | string | boolean | null> | null;
  logs?: string[] | null;
}

/** A group as it was logged, by a training job (split "train") or by `log`. */
export interface LoggedGroup {
  id: string;
  /** The step it was logged at: for the groups of a job the one they were sampled with. */
  step: number;
  split: string;
  group: TrajectoryGroup;
  /** ISO 8601. */
  recorded_at: string;
}

export interface LogParams {
  /** For example "val". */
  split: string;
  trajectory_groups: TrajectoryGroup[];
  /** Of the checkpoint that they were gathered with; default: the latest. */
  step?: number | null;
}

export interface LogResult {
  /** The step whose checkpoint the metrics were attached to. */
  step: number;
  metrics: Record<string, number>;
}
