import * as z from "zod";
import { describePolicyLosses, policyLossNames } from "../policyLosses.js";
import { documentedAs, field, named, open, typed } from "./fields.js";
import { anyValue, list, map } from "./limited.js";
import { uuid } from "./names.js";
import { orderedPageQuery } from "./pages.js";
import { trajectoryGroups, trajectoryMessage, trajectoryTools } from "./trajectories.js";
import { settingsObject } from "./validate.js";

const clip = (value: number) => (Number.isInteger(value) ? value.toFixed(1) : String(value));

export const MAX_RUN_NAME = 256;
/** Of a 64-bit integer with its sign, and room to spare. */
const MAX_SEED_DIGITS = 40;

const fraction = z.number().min(0);
const MAX_EPOCHS = 10_000;

const scheduleKind = z.enum(["constant", "linear", "cosine"]);

export const validationConfig = named(
  "ValidationConfig",
  z.object({
    validation_ratio: field(
      z.number().min(0).lt(1).nullish(),
      "Share of the conversations, or of the groups that teach, that is held out; 0: none.",
      { default: 0 },
    ),
    validation_interval: field(
      z.int().min(1).nullish(),
      "Optimizer steps between two validations; there is one before the first and one after the last too. Default: an epoch.",
    ),
    early_stopping_patience: field(
      z.int().min(1).nullish(),
      "Validations in a row without improvement after which training ends. Default: it does not.",
    ),
    early_stopping_threshold: field(fraction.nullish(), "By how much the loss must fall to count as an improvement.", {
      default: 0,
    }),
    keep_best: field(
      z.boolean().nullish(),
      "Make the checkpoint of the weights with the lowest loss (at worst those the job began with), not of the last. Default: true where data is held out.",
    ),
  }),
  "Held-out data of a job, and what follows from its loss (`val/loss` of events and checkpoints).",
);

const tau = "Subtracts this times (new logprob - old logprob) from each token's advantage. Default: 0, none.";

/** On the wire unknown settings are ignored, in process they are errors. */
export const experimentalConfig = named(
  "ExperimentalConfig",
  settingsObject({
    learning_rate: field(fraction.nullish(), "Of AdamW; at most 1000.", { default: 5e-6 }),
    learning_rate_schedule: field(
      scheduleKind.nullish(),
      "What becomes of it over the job's optimizer steps (in `train`, over the run's jobs): kept, or falling to 0.",
      { default: "constant" },
    ),
    warmup_ratio: field(z.number().min(0).max(1).nullish(), "Share of the steps over which it rises from 0 first.", {
      default: 0,
    }),
    entropy_coef: field(
      fraction.nullish(),
      "Subtracts this times the mean entropy of the trained tokens (in nats, over the whole vocabulary) from the loss.",
      { default: 0 },
    ),
    ...validationConfig.shape,
    loss_fn: field(
      z.enum(policyLossNames).nullish(),
      `${describePolicyLosses(({ meaning }, name) => `"${name}": ${meaning}.`).join(" ")} Default: "${policyLossNames[0]}", or what \`ppo\` says.`,
    ),
    ppo: field(z.boolean().nullish(), "true: the ppo loss, unless `loss_fn` says otherwise.", { default: false }),
    epsilon: field(
      fraction.nullish(),
      `Lower clip: the ratio is kept above 1 - epsilon. Default: ${describePolicyLosses(({ epsilon }, name) => `${clip(epsilon)} (${name})`).join(", ")}.`,
    ),
    epsilon_high: field(
      fraction.nullish(),
      `Upper clip: the ratio is kept below 1 + epsilon_high. Default: ${describePolicyLosses(({ epsilonHigh }, name) => `${epsilonHigh === null ? "`epsilon`" : clip(epsilonHigh)} (${name})`).join(", ")}.`,
    ),
    advantage_balance: field(
      z.number().min(-1).max(1).nullish(),
      "Above 0 weakens negative advantages, below 0 positive ones; at 1 and -1 they are gone.",
      { default: 0 },
    ),
    scale_rewards: field(z.boolean().nullish(), "Divide advantages by their group's deviation.", { default: true }),
    normalize_advantages: field(z.boolean().nullish(), "false: as `scale_rewards: false`, whatever that says.", {
      default: true,
    }),
    importance_sampling_level: field(
      z.enum(["token", "sequence", "average", "geometric_average"]).nullish(),
      "Whose ratio of new to old probability counts: each token's own, the whole trajectory's (the geometric mean of its tokens'), or the arithmetic or geometric mean of these two.",
      { default: "token" },
    ),
    mask_prob_ratio: field(z.boolean().nullish(), "Leave out tokens whose ratio is outside of the clip.", {
      default: false,
    }),
    max_logprob_difference: field(
      fraction.nullish(),
      "The job fails, before it has changed anything, when the logprobs that the trained tokens of its first group were sampled with differ by more than this on average, in nats, from those that the weights it begins with give them. For samplers that are other programs. Default: no bound.",
    ),
    max_negative_advantage_importance_sampling_weight: field(
      fraction.nullish(),
      "Ratios are at most this, before they are clipped. Default: 0, no bound.",
    ),
    kimi_k2_tau: field(fraction.nullish(), tau),
    variant_k2_tau: field(fraction.nullish(), "Another spelling of `kimi_k2_tau`."),
    precalculate_logprobs: field(
      z.boolean().nullish(),
      "Take the logprobs of the weights that the job begins with for the old ones; the sampled ones only correct the sampling (`truncated_importance_sampling`).",
      { default: false },
    ),
    truncated_importance_sampling: field(
      fraction.nullish(),
      "Multiplies the loss by the ratio (with `precalculate_logprobs`: of old to sampled probability), at most this. Default: 0, not at all.",
    ),
    allow_training_without_logprobs: field(
      z.boolean().nullish(),
      "Train assistant messages and choices that carry no logprobs too, as if the current weights had sampled them; else they are context.",
      { default: false },
    ),
    logprob_calculation_chunk_size: field(
      z.int().min(1).nullish(),
      "What `packed_sequence_length` must be a multiple of; otherwise without effect.",
      { default: 1024 },
    ),
    packed_sequence_length: field(
      z.int().min(1).nullish(),
      "Tokens of a trajectory at most; longer ones are dropped, and counted. Default: the model's context.",
    ),
    num_trajectories_learning_rate_multiplier_power: field(
      z.number().nullish(),
      "A step's learning rate is multiplied by (rows in it) to this power: the sequences that it trains on, of which a trajectory may give several.",
      { default: 0 },
    ),
    scale_learning_rate_by_reward_std_dev: field(z.boolean().nullish(), "Accepted, without effect."),
    plot_tensors: field(z.boolean().nullish(), "Accepted, without effect."),
    kl_penalty_coef: field(
      fraction.nullish(),
      "Shapes advantages by this times how far a token's logprob is above a reference model's, against the sequence's mean. 0: not at all.",
      { default: 0 },
    ),
    kl_penalty_source: field(
      z.enum(["current_learner", "sample"]).nullish(),
      'Whose logprobs are compared with the reference: of the weights in training, or those it was sampled with. Default: "sample" with a `kl_penalty_coef`.',
    ),
    kl_penalty_reference_step: field(
      z.int().min(0).nullish(),
      "The reference is the checkpoint of this step. Default: the base model. A ValidationError where there is none.",
    ),
    kl_penalty_step_lag: field(
      z.int().min(1).nullish(),
      "The reference is the checkpoint so many steps before the latest. Not with `kl_penalty_reference_step`.",
    ),
    kl_ref_adapter_path: field(
      z.string().nullish(),
      "The reference is the base model with the PEFT adapter in this folder. Not with the other two.",
    ),
  }),
  "Settings of a reinforcement learning job. Absent and null both mean the default. The loss of held-out groups is minus the mean, over their trained tokens, of the ratio (clipped as ppo does, between the loss's own bounds) times the advantage.",
);

const trainingRun = named(
  "TrainingRun",
  z.object({
    id: field(uuid, "The same in every job of the run."),
    name: field(z.string().max(MAX_RUN_NAME).nullable(), "null: the application gave none."),
    first_step: field(z.int().min(0), "The model's step when the run began."),
    steps: field(z.int().min(0), "Jobs of the whole run."),
    seed: field(z.string().max(MAX_SEED_DIGITS), "As decimal text: it may have 64 bits."),
    scenarios: field(z.int().min(0), "How many the scenarios are."),
    groups_per_step: field(z.int().min(0), "How many of them a job takes."),
  }),
  "What several jobs of a model are parts of, as `train` notes it to take a run up again.",
);

export const trainingJobCreate = named(
  "TrainingJobCreateParams",
  z.object({
    model_id: field(uuid, "The model to train. A NotFoundError when there is none."),
    trajectory_groups: field(trajectoryGroups, "What to learn from: one optimizer step per group."),
    experimental_config: field(experimentalConfig.nullish(), "Settings. Default: those of an empty one."),
    run: field(trainingRun.nullish(), "Kept with the job, without a meaning for it."),
  }),
  "A reinforcement learning job.",
);

/** Learning rates of single steps. */
const MAX_STEPS = 1_000_000;

export const sftConfig = named(
  "SftConfig",
  settingsObject({
    num_epochs: field(z.int().min(1).max(MAX_EPOCHS).nullish(), "Passes over the conversations.", { default: 1 }),
    shuffle: field(
      z.boolean().nullish(),
      "Take the conversations of each epoch in another order, else as they are given.",
      { default: false },
    ),
    seed: field(z.int().nullish(), "Of the shuffled orders, and of which conversations are held out.", { default: 0 }),
    batch_size: field(
      z.union([z.int().min(1), z.literal("auto")]).nullish(),
      'Conversations per optimizer step; "auto" is 2.',
      { default: "auto" },
    ),
    // Schedules end at 0.
    learning_rate: field(
      z.union([fraction, list(fraction, MAX_STEPS).min(1)]).nullish(),
      "Of AdamW, at most 1000: one value, or one per batch.",
      { default: 5e-5 },
    ),
    learning_rate_schedule: field(
      scheduleKind.nullish(),
      "What becomes of one learning rate over the batches: kept, or falling to 0. Not with a list of them.",
      { default: "constant" },
    ),
    warmup_ratio: field(
      z.number().min(0).max(1).nullish(),
      "Share of the batches over which one learning rate rises from 0 first.",
      { default: 0 },
    ),
    metric_logging: field(
      settingsObject({
        enabled: field(z.boolean().nullish(), "Whether batches are recorded as metrics of the model.", {
          default: false,
        }),
        target_training_step: field(
          z.int().min(0).nullish(),
          "Step whose metrics take the job's aggregate. Default: the one that the job makes.",
        ),
      }).nullish(),
      "What is recorded beside the job's events.",
    ),
    assistant_turns: field(z.enum(["all", "last"]).nullish(), "Which assistant turns are trained.", { default: "all" }),
    ...validationConfig.shape,
  }),
  "Settings of a supervised job. Absent and null both mean the default.",
);

/** In a request itself; files have no such bound. */
const MAX_CONVERSATIONS = 1_000_000;

const trainingMessage = named(
  "TrainingMessage",
  trajectoryMessage.extend({
    reasoning: field(
      z.string().nullish(),
      "Of an assistant: what it thought first, trained with its turn where the template shows it. `reasoning_content` is taken too, and with gpt-oss `thinking`.",
    ),
    weight: field(z.union([z.literal(0), z.literal(1)]).nullish(), "0: not trained.", { default: 1 }),
  }),
  "An assistant turn of weight 0 is context, as it would be in the prompt of a later turn; else it is trained.",
);

const trainingConversation = named(
  "TrainingConversation",
  z.object({
    messages: field(z.array(trainingMessage), "What was said, in order."),
    tools: trajectoryTools,
  }),
  "A conversation to imitate: its last message is the assistant's.",
);

/** Checked as the lines of a file are. */
const conversation = documentedAs(
  z.unknown() as z.ZodType<z.output<typeof trainingConversation>>,
  trainingConversation,
);

export const sftTrainingJobCreate = named(
  "SftTrainingJobCreateParams",
  z.object({
    model_id: field(uuid, "The model to train. A NotFoundError when there is none."),
    training_data_url: field(
      z.string().min(1).nullish(),
      "Conversations as in `data`, one per line of a JSONL file or as a JSON array, or of `trajectories.jsonl` or `train.jsonl` in a folder. In process: any path or `file:` URL. In a request: a `file:` URL or absolute path under a data root. Both: an `http(s):` URL on an allowed host, or `wandb-artifact:///entity/project/name:vN`.",
    ),
    data: field(list(conversation, MAX_CONVERSATIONS).nullish(), "The conversations themselves."),
    config: field(sftConfig.nullish(), "Settings. Default: those of an empty one."),
    experimental_config: field(map(anyValue, 1024).nullish(), "Accepted, without effect."),
  }),
  "A supervised fine-tuning job, with either `data` or `training_data_url`.",
);

export const trainingJobCreated = named(
  "TrainingJobCreated",
  z.object({ id: field(uuid, "The job's id.") }),
  "A job that is queued.",
);

const jobStatus = named(
  "TrainingJobStatus",
  z.enum(["queued", "running", "succeeded", "failed", "cancelled"]),
  "How far a job is. The last three are final.",
);

export const trainingJob = named(
  "TrainingJob",
  z.object({
    id: field(uuid, "Its id."),
    status: field(jobStatus, "How far it is."),
    model_id: field(uuid, "The model that it trains."),
    created_at: field(z.string(), "ISO 8601, as are the other times."),
    started_at: field(z.string().nullable(), "null while it is queued."),
    ended_at: field(z.string().nullable(), "null until it has ended."),
    step: field(z.int().nullable(), "Step of the checkpoint that the job made; null until it has succeeded."),
    error: field(z.string().nullable(), "Why it failed."),
    waits_for: field(
      z.literal("disk_space").nullable(),
      "`disk_space`: the disk is full, and the job goes on by itself once there is room. null: nothing holds it up so.",
    ),
    run: field(trainingRun.optional(), "Of a job that `train` made."),
  }),
  "A training job of either kind.",
);

export const trainingSession = named(
  "TrainingSessionInfo",
  z.object({
    id: field(uuid, "Its id, to close it by."),
    model_id: field(uuid, "The model that it holds."),
    opened_at: field(z.string(), "ISO 8601."),
  }),
  "A session that holds a model, whose jobs wait until it is closed.",
);

export const trainingSessions = z.array(trainingSession);

export const jobQuery = named(
  "JobQuery",
  orderedPageQuery.extend({
    model_id: field(uuid.nullish(), "Only jobs of this model. Default: all that the caller may see."),
    status: field(jobStatus.nullish(), "Only jobs that are so far. Default: all."),
  }),
  "Which jobs are wanted.",
);

const estimate = named(
  "TrainingEstimate",
  z.object({
    tokens: field(z.number(), "Computed forward and backward; what rows share counts once."),
    memory_bytes: field(
      z.number(),
      "Besides the model, at most: the largest passes, what is trained with its optimizer, and a checkpoint's copies.",
    ),
    seconds: field(
      z.number().optional(),
      "On this machine as busy as it is, validation included; early stopping ends sooner.",
    ),
  }),
  "What a job will take, told before its first step.",
);

export const jobEstimate = named(
  "JobEstimate",
  z.object({
    steps: field(z.int(), "Optimizer steps, one `gradient_step` event each."),
    ...estimate.shape,
    warnings: field(z.array(z.string()), "Why less would be learned than could be."),
  }),
  "What a job would take that began now.",
);

const event = <T extends string, D extends z.ZodType>(type: T, data: D, about: string) =>
  z.object({ id: field(uuid, "Its id, which pages go by."), type: z.literal(type), data: field(data, about) });

const startedData = open(
  z.looseObject({
    num_sequences: field(z.int(), "Optimizer steps that the job will make, one `gradient_step` each."),
    estimate: field(estimate.optional(), "Of jobs that are not over in a moment, `seconds` too."),
    kernel_set: field(
      z.string().optional(),
      "What computes it, such as `avx512bf16` or `vulkan`, which have the same bits, or `vulkan-fast`, which has others.",
    ),
    warnings: field(z.array(z.string()).optional(), "Why less is learned than could be."),
  }),
  "count",
);

export const trainingEvent = named(
  "TrainingEvent",
  z.discriminatedUnion("type", [
    named(
      "TrainingStartedEvent",
      event("training_started", startedData, "What the job will do, and counts of what the data held."),
      "The first event of a job.",
    ),
    named(
      "GradientStepEvent",
      event("gradient_step", z.record(z.string(), z.number()), "Name to value, such as `loss` and `grad_norm`."),
      "An optimizer step: its loss, its gradient's norm and what else was measured.",
    ),
    named(
      "TrainingEndedEvent",
      event("training_ended", open(z.looseObject({}), "more"), "What was measured of the whole job."),
      "The last event of a job that succeeded: its checkpoint is served.",
    ),
    named(
      "TrainingFailedEvent",
      event(
        "training_failed",
        open(z.looseObject({ error_message: field(z.string(), 'What went wrong, or "cancelled".') }), "more"),
        "Why.",
      ),
      'The last event of a job that failed, or ("cancelled") was cancelled.',
    ),
  ]),
  "Told apart by `type`. A job has exactly one of the last two types, and nothing after it.",
);

export const trainingEventType = named(
  "TrainingEventType",
  typed(z.string(), 'TrainingEvent["type"]'),
  "What an event is of.",
);
