import { z } from "zod";
import { list, looseObject, map } from "./limited.js";
import { name } from "./names.js";
import { loggedGroupId } from "./pages.js";

const MAX_GROUPS = 1_000_000;
const MAX_TRAJECTORIES = 1_000_000;
const MAX_MESSAGES = 131_072;
const MAX_PARTS = 16_384;
const MAX_TOOLS = 4096;
/** Far more than a context holds. */
const MAX_TOKENS = 2 ** 24;
const MAX_TOP_LOGPROBS = 2 ** 19;
const MAX_HISTORIES = 16_384;
const MAX_EXCEPTIONS = 131_072;
const MAX_LOGS = 131_072;
const MAX_METADATA = 4096;
export const MAX_METRICS = 4096;
const MAX_FIELDS = 65_536;

const toolCall = looseObject({
  id: z.string(),
  type: z
    .literal("function")
    .nullish()
    .transform(() => "function" as const),
  function: looseObject({ name: z.string(), arguments: z.string() }),
});

const contentPart = looseObject({ type: z.string(), text: z.string().optional() });

const content = z.union([z.string(), list(contentPart, MAX_PARTS)]);

const message = looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
  content: content.nullish(),
  name: z.string().nullish(),
  tool_calls: list(toolCall, MAX_TOOLS).nullish(),
  tool_call_id: z.string().nullish(),
});

const topLogprob = looseObject({
  token: z.string(),
  logprob: z.number(),
  bytes: list(z.int(), MAX_PARTS).nullish(),
});

const logprob = topLogprob.extend({
  top_logprobs: list(topLogprob, MAX_TOP_LOGPROBS).nullish(),
  temperature_logprob: z.number().nullish(),
});

const tokenIds = list(z.int().min(0), MAX_TOKENS);

const choice = looseObject({
  index: z.int().nullish(),
  finish_reason: z.string().nullable(),
  message: looseObject({
    role: z
      .string()
      .nullish()
      .transform((role) => role ?? "assistant"),
    content: z.string().nullish(),
    tool_calls: list(toolCall, MAX_TOOLS).nullish(),
  }),
  logprobs: looseObject({ content: list(logprob, MAX_TOKENS).nullish() }).nullish(),
  prompt_token_ids: tokenIds.nullish(),
  token_ids: tokenIds.nullish(),
});

/** A choice has `message` and `finish_reason`, a message has `role`. */
const messageOrChoice = z.union([choice, message]);

const tool = looseObject({
  type: z.literal("function").nullish(),
  function: looseObject({
    name: z.string(),
    description: z.string().nullish(),
    parameters: map(z.unknown(), MAX_FIELDS).nullish(),
    strict: z.boolean().nullish(),
  }).optional(),
});

const history = z.object({
  messages_and_choices: list(messageOrChoice, MAX_MESSAGES),
  tools: list(tool, MAX_TOOLS).nullish(),
});

const freeMetrics = map(z.union([z.number(), z.boolean()]), MAX_METRICS).nullish();
const metadata = map(z.union([z.number(), z.string(), z.boolean(), z.null()]), MAX_METADATA).nullish();
const logs = list(z.string(), MAX_LOGS).nullish();

export const trajectory = history.extend({
  messages_and_choices: list(messageOrChoice, MAX_MESSAGES)
    .nullish()
    .transform((items) => items ?? []),
  additional_histories: list(history, MAX_HISTORIES).nullish(),
  /** Right or wrong is a reward too: 1 or 0. */
  reward: z.union([z.number(), z.boolean()]).transform(Number),
  initial_policy_version: z.int().nullish(),
  final_policy_version: z.int().nullish(),
  metrics: freeMetrics,
  metadata,
  logs,
  start_time: z.string().nullish(),
});

const exception = z.object({ type: z.string(), message: z.string(), traceback: z.string().nullish() });

export const trajectoryGroup = z.object({
  trajectories: list(trajectory, MAX_TRAJECTORIES),
  exceptions: list(exception, MAX_EXCEPTIONS).nullish(),
  metrics: freeMetrics,
  metadata,
  logs,
});

export const trajectoryGroups = list(trajectoryGroup, MAX_GROUPS);

/** A group as it was logged. */
export const loggedGroup = z.object({
  id: loggedGroupId,
  step: z.int(),
  split: z.string(),
  group: trajectoryGroup,
  recorded_at: z.string(),
});

export const trajectoryLog = z.object({
  split: name,
  trajectory_groups: trajectoryGroups,
  step: z.int().min(0).nullish(),
});

export const logResult = z.object({ step: z.int(), metrics: z.record(z.string(), z.number()) });
