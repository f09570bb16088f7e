import { z } from "zod";
import { name } from "./names.js";
import { loggedGroupId } from "./pages.js";

const toolCall = z.looseObject({
  id: z.string(),
  type: z
    .literal("function")
    .nullish()
    .transform(() => "function" as const),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});

const contentPart = z.looseObject({ type: z.string(), text: z.string().optional() });

const content = z.union([z.string(), z.array(contentPart)]);

const message = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
  content: content.nullish(),
  name: z.string().nullish(),
  tool_calls: z.array(toolCall).nullish(),
  tool_call_id: z.string().nullish(),
});

const topLogprob = z.looseObject({
  token: z.string(),
  logprob: z.number(),
  bytes: z.array(z.int()).nullish(),
});

const logprob = topLogprob.extend({
  top_logprobs: z.array(topLogprob).nullish(),
  temperature_logprob: z.number().nullish(),
});

const tokenIds = z.array(z.int().min(0));

const choice = z.looseObject({
  index: z.int().nullish(),
  finish_reason: z.string().nullable(),
  message: z.looseObject({
    role: z
      .string()
      .nullish()
      .transform((role) => role ?? "assistant"),
    content: z.string().nullish(),
    tool_calls: z.array(toolCall).nullish(),
  }),
  logprobs: z.looseObject({ content: z.array(logprob).nullish() }).nullish(),
  prompt_token_ids: tokenIds.nullish(),
  token_ids: tokenIds.nullish(),
});

/** A choice has `message` and `finish_reason`, a message has `role`. */
const messageOrChoice = z.union([choice, message]);

const tool = z.looseObject({
  type: z.literal("function").nullish(),
  function: z
    .looseObject({
      name: z.string(),
      description: z.string().nullish(),
      parameters: z.record(z.string(), z.unknown()).nullish(),
      strict: z.boolean().nullish(),
    })
    .optional(),
});

const history = z.object({
  messages_and_choices: z.array(messageOrChoice),
  tools: z.array(tool).nullish(),
});

const freeMetrics = z.record(z.string(), z.union([z.number(), z.boolean()])).nullish();
const metadata = z.record(z.string(), z.union([z.number(), z.string(), z.boolean(), z.null()])).nullish();
const logs = z.array(z.string()).nullish();

export const trajectory = history.extend({
  messages_and_choices: z
    .array(messageOrChoice)
    .nullish()
    .transform((items) => items ?? []),
  additional_histories: z.array(history).nullish(),
  /** Right or wrong is a reward too: 1 or 0. */
  reward: z.union([z.number(), z.boolean()]).transform(Number),
  initial_policy_version: z.int().nullish(),
  final_policy_version: z.int().nullish(),
  metrics: freeMetrics,
  metadata,
  logs,
  start_time: z.string().nullish(),
});

export const trajectoryGroup = z.object({
  trajectories: z.array(trajectory),
  exceptions: z.array(z.object({ type: z.string(), message: z.string(), traceback: z.string().nullish() })).nullish(),
  metrics: freeMetrics,
  metadata,
  logs,
});

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
  trajectory_groups: z.array(trajectoryGroup),
  step: z.int().min(0).nullish(),
});

export const logResult = z.object({ step: z.int(), metrics: z.record(z.string(), z.number()) });
