import * as z from "zod";
import { documentedAs, field, named, typed } from "./fields.js";
import { anyValue, list, looseObject, map } from "./limited.js";
import { name } from "./names.js";
import { loggedGroupId } from "./pages.js";

export const MAX_GROUPS = 1_000_000;
export const MAX_GROUP_TRAJECTORIES = 1_000_000;
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

const calledFunction = looseObject({
  name: field(z.string(), "The function's name."),
  arguments: field(z.string(), "JSON, as the model wrote it."),
});

const functionType = documentedAs(
  z
    .literal("function")
    .nullish()
    .transform(() => "function" as const),
  z.literal("function"),
  "output",
);

const toolCall = named(
  "TrajectoryToolCall",
  typed(
    looseObject({
      id: field(z.string(), "Its id, which the tool's message repeats."),
      type: functionType,
      function: calledFunction,
    }),
    '{ id: string; type: "function"; function: { name: string; arguments: string } } | { id: string; type: "custom" }',
  ),
  "A call: its `id`, which the tool's message repeats, and the `function` with `name` and `arguments` (JSON, as the model wrote it). Calls other than of functions are refused when they are given; their type is here so that other libraries' messages fit.",
);

const contentPart = named(
  "TrajectoryContentPart",
  looseObject({
    type: field(z.string(), 'What the part is, such as "text".'),
    text: field(z.string().optional(), "The text of a part that is one."),
  }),
  "A part of a message's content; parts other than text are refused by text models.",
);

const content = z.union([z.string(), list(contentPart, MAX_PARTS)]);

export const trajectoryMessage = named(
  "TrajectoryMessage",
  looseObject({
    role: field(z.enum(["system", "developer", "user", "assistant", "tool", "function"]), "Who says it."),
    content: field(content.nullish(), "What is said."),
    name: field(z.string().nullish(), "Of the one who says it, where the template shows it."),
    tool_calls: field(list(toolCall, MAX_TOOLS).nullish(), "Of an assistant: the functions that it called."),
    tool_call_id: field(z.string().nullish(), "Of a tool: the call that it answers."),
  }),
  "A conversation message: context, never trained. Fields beyond these are kept.",
);

const topLogprob = looseObject({
  token: z.string(),
  logprob: z.number(),
  bytes: list(z.int(), MAX_PARTS).nullish(),
});

const logprob = named(
  "TrajectoryLogprob",
  looseObject({
    token: field(z.string(), "The token's text, or `token_id:N`."),
    logprob: field(z.number(), "Natural logarithm, temperature 1, before any filter."),
    temperature_logprob: field(
      z.number().nullish(),
      "At the temperature in the choice's `sampling_settings`, before any filter; the token is then trained at that temperature.",
    ),
    bytes: field(list(z.int(), MAX_PARTS).nullish(), "UTF-8 of the token's text."),
    top_logprobs: field(
      list(topLogprob, MAX_TOP_LOGPROBS).nullish(),
      "The likeliest tokens there (`token`, `logprob`, `bytes`); not read by training.",
    ),
  }),
  "A sampled token and how likely it was.",
);

const tokenIds = list(z.int().min(0), MAX_TOKENS);

const choice = named(
  "TrajectoryChoice",
  looseObject({
    index: field(z.int().nullish(), "Its place among the completion's choices; not read by training."),
    finish_reason: field(z.string().nullable(), "Why it ended."),
    message: field(
      looseObject({
        role: documentedAs(
          z
            .string()
            .nullish()
            .transform((role) => role ?? "assistant"),
          z.string(),
          "output",
        ),
        content: z.string().nullish(),
        tool_calls: list(toolCall, MAX_TOOLS).nullish(),
      }),
      "What was answered: `role`, `content` and `tool_calls`.",
    ),
    logprobs: field(
      looseObject({ content: list(logprob, MAX_TOKENS).nullish() }).nullish(),
      "In `content`, of every sampled token. Without them the choice is context.",
    ),
    prompt_token_ids: field(tokenIds.nullish(), "The whole prompt that the choice continues. Default: rendered again."),
    token_ids: field(tokenIds.nullish(), "The sampled tokens, the end token included. Default: from `logprobs`."),
    sampling_settings: field(
      anyValue.optional(),
      "What made the sampling differ from the plain policy (temperature, filters, penalties, masks); set by the engine.",
    ),
  }),
  "What a model answered, as the completion's choice: trained when it carries logprobs. Fields beyond these are kept.",
);

const messageOrChoice = named(
  "MessageOrChoice",
  z.union([choice, trajectoryMessage]),
  "Told apart by shape: a choice has `message` and `finish_reason`, a message has `role`.",
);

const tool = named(
  "TrajectoryTool",
  looseObject({
    type: field(z.literal("function").nullish(), "What the tool is.", { default: "function" }),
    function: field(
      looseObject({
        name: field(z.string(), "The function's name."),
        description: field(z.string().nullish(), "What it does, for the model."),
        parameters: field(map(anyValue, MAX_FIELDS).nullish(), "JSON Schema of its arguments."),
        strict: field(z.boolean().nullish(), "Whether its arguments follow the schema exactly."),
      }).optional(),
      "The function.",
    ),
  }),
  "A function that the model could call.",
);

const turns = list(messageOrChoice, MAX_MESSAGES);

export const trajectoryTools = field(
  list(tool, MAX_TOOLS).nullish(),
  "Functions that the model could call. Default: none.",
);

const history = named(
  "TrajectoryHistory",
  z.object({ messages_and_choices: field(turns, "The conversation, in order."), tools: trajectoryTools }),
  "A conversation of a trajectory.",
);

const metricValue = z.union([z.number(), z.boolean(), z.null()]);
const freeMetrics = field(
  map(documentedAs(z.union([metricValue, z.nan()]), metricValue), MAX_METRICS).nullish(),
  "Name to value; true and false are 1 and 0. NaN, which JSON writes as null, is left out. Their means are metrics of the step.",
);
const metadata = field(
  map(z.union([z.number(), z.string(), z.boolean(), z.null()]), MAX_METADATA).nullish(),
  "Whatever belongs to it; kept, without a meaning for training.",
);
const logs = field(list(z.string(), MAX_LOGS).nullish(), "Lines to keep with it.");

export const trajectory = named(
  "Trajectory",
  z.object({
    messages_and_choices: field(
      documentedAs(
        list(messageOrChoice, MAX_MESSAGES)
          .nullish()
          .transform((items) => items ?? []),
        turns,
        "output",
      ),
      "The conversation, in order.",
    ),
    tools: trajectoryTools,
    additional_histories: field(
      list(history, MAX_HISTORIES).nullish(),
      "Further conversations of the same attempt, trained with the same reward. Default: none.",
    ),
    reward: field(
      documentedAs(z.union([z.number(), z.boolean()]).transform(Number), z.number(), "output"),
      "How good it was: compared with the others of its group. Right or wrong is a reward too: 1 or 0.",
    ),
    initial_policy_version: field(z.int().nullish(), "Step of the policy at the first turn."),
    final_policy_version: field(z.int().nullish(), "Step of the policy at the last turn. Default: that of the first."),
    metrics: freeMetrics,
    metadata,
    logs,
    start_time: field(z.string().nullish(), "ISO 8601; what templates that show the time say. Default: now."),
  }),
  "One attempt: what was said, and its reward.",
);

const exception = named(
  "TrajectoryException",
  z.object({
    type: field(z.string(), "Its class."),
    message: field(z.string(), "Its message."),
    traceback: field(z.string().nullish(), "Where it was thrown."),
  }),
  "An attempt that failed.",
);

export const trajectoryGroup = named(
  "TrajectoryGroup",
  z.object({
    trajectories: field(
      list(trajectory, MAX_GROUP_TRAJECTORIES),
      "The attempts. Where all rewards are equal, nothing is learned.",
    ),
    exceptions: field(list(exception, MAX_EXCEPTIONS).nullish(), "Attempts that failed: counted, never trained."),
    metrics: freeMetrics,
    metadata,
    logs,
  }),
  "Trajectories of the same scenario: their rewards are compared with each other.",
);

export const trajectoryGroups = list(trajectoryGroup, MAX_GROUPS);

/** A group as it was logged. */
export const loggedGroup = named(
  "LoggedGroup",
  z.object({
    id: field(loggedGroupId, "Its id, which pages go by."),
    step: field(z.int(), "The step it was logged at: for the groups of a job the one they were sampled with."),
    split: field(z.string(), '"train" for the groups of jobs, else as it was logged.'),
    group: field(trajectoryGroup, "The group."),
    recorded_at: field(z.string(), "ISO 8601."),
  }),
  'A group as it was logged, by a training job (split "train") or by `log`.',
);

export const trajectoryLog = named(
  "LogParams",
  z.object({
    split: field(name, 'What the groups are for: for example "val".'),
    trajectory_groups: field(trajectoryGroups, "The groups, stored and measured."),
    step: field(z.int().min(0).nullish(), "Of the checkpoint that they were gathered with. Default: the latest."),
  }),
  "Trajectories to log.",
);

export const logResult = named(
  "LogResult",
  z.object({
    step: field(z.int(), "The step whose checkpoint the metrics were attached to."),
    metrics: field(z.record(z.string(), z.number()), "Name, under the split, to value."),
  }),
  "What was measured of logged trajectories.",
);
