// Supervised fine-tuning: conversations to batches to one cross-entropy step per batch.

import { ClosedError, UnavailableError, ValidationError, type ValidationIssue } from "../errors.js";
import type { SftConfig } from "../types/training.js";
import { type ConversationRenderer, conversationRows } from "./conversationRows.js";
import { workOf } from "./estimate.js";
import { type LearningRateSettings, learningRates } from "./learningRates.js";
import { crossEntropyLoss } from "./losses.js";
import { MAX_LEARNING_RATE } from "./optimizer.js";
import { computedTokens } from "./packing.js";
import { createPromptRenderer } from "./promptRenderer.js";
import { evaluationCount, finiteNumbers, type Recipe, type RecipeValidation } from "./recipe.js";
import { countExamples, isRemote, readExamples, TrainingDataError } from "./sftData.js";
import { countTrained, type TokenRow } from "./tokenRow.js";
import type { TrainingBase } from "./trainingBase.js";
import { heldOut, heldOutCount, resolveValidation, shuffledAsync, type ValidationSettings } from "./validation.js";

export interface SftSettings {
  batchSize: number;
  /** What the values of all batches follow from, or one per batch. */
  learningRate: LearningRateSettings | number[];
  turns: "all" | "last";
  epochs: number;
  shuffle: boolean;
  /** Of the orders, and of what is held out. */
  seed: number;
  /** null: nothing is held out. */
  validation: ValidationSettings | null;
  /** Step whose metrics take the job's aggregate; null: batches are not logged. */
  loggingStep: number | null;
}

const DEFAULT_BATCH = 2;
const DEFAULT_LEARNING_RATE = 5e-5;

/**
 * Resolves an SFT configuration; `nextStep` is the step of the checkpoint that the job will make.
 * @throws ValidationError naming every field that is out of range.
 */
export function resolveSftSettings(config: SftConfig | null | undefined, nextStep: number): SftSettings {
  const issues: ValidationIssue[] = [];
  const reject = (field: string, msg: string) =>
    issues.push({ loc: ["body", "config", ...field.split(".")], msg, type: "value_error" });
  const batchSize = config?.batch_size == null || config.batch_size === "auto" ? DEFAULT_BATCH : config.batch_size;
  if (!Number.isInteger(batchSize) || batchSize < 1)
    reject("batch_size", `must be a whole number above 0, got ${batchSize}`);
  const learningRate = config?.learning_rate ?? DEFAULT_LEARNING_RATE;
  const rates = Array.isArray(learningRate) ? learningRate : [learningRate];
  if (rates.length === 0) reject("learning_rate", "must hold one value per batch");
  const schedule = config?.learning_rate_schedule ?? "constant";
  const warmupRatio = config?.warmup_ratio ?? 0;
  if (Array.isArray(learningRate) && (schedule !== "constant" || warmupRatio > 0)) {
    const field = schedule === "constant" ? "warmup_ratio" : "learning_rate_schedule";
    reject(field, "cannot be combined with a list of learning rates, which is a schedule itself");
  }
  if (!(warmupRatio >= 0 && warmupRatio <= 1)) reject("warmup_ratio", `must be between 0 and 1, got ${warmupRatio}`);
  for (const [i, rate] of rates.entries()) {
    const field = Array.isArray(learningRate) ? `learning_rate.${i}` : "learning_rate";
    if (!(rate >= 0 && rate <= MAX_LEARNING_RATE))
      reject(field, `must be between 0 and ${MAX_LEARNING_RATE}, got ${rate}`);
  }
  const epochs = config?.num_epochs ?? 1;
  if (!Number.isInteger(epochs) || epochs < 1) reject("num_epochs", `must be a whole number above 0, got ${epochs}`);
  const seed = config?.seed ?? 0;
  if (!Number.isSafeInteger(seed)) reject("seed", `must be a whole number, got ${seed}`);
  const validation = resolveValidation(config ?? {}, reject);
  const logging = config?.metric_logging;
  const target = logging?.target_training_step ?? nextStep;
  if (!Number.isInteger(target) || target < 0)
    reject("metric_logging.target_training_step", "must be a whole number, at least 0");
  if (issues.length > 0) throw new ValidationError(issues);
  return {
    batchSize,
    learningRate: Array.isArray(learningRate) ? learningRate : { peak: learningRate, schedule, warmupRatio },
    turns: config?.assistant_turns ?? "all",
    epochs,
    shuffle: config?.shuffle ?? false,
    seed,
    validation,
    loggingStep: logging?.enabled ? target : null,
  };
}

/**
 * Counts the conversations that a list of learning rates is for, where they lie on this machine.
 * @throws ValidationError unless it holds one per batch; TrainingDataError when the file cannot be read.
 */
export async function checkRatesOfFile(settings: SftSettings, data: string, name: string): Promise<void> {
  if (!Array.isArray(settings.learningRate) || isRemote(data)) return;
  checkRateCount(settings, await countExamples(data, name));
}

/** Checks a list of learning rates for so many conversations, those held out among them. @throws ValidationError */
export function checkRateCount(settings: SftSettings, conversations: number): void {
  const { learningRate: rates } = settings;
  const batches = batchesOf(settings, conversations);
  if (!Array.isArray(rates) || rates.length === batches) return;
  throw ValidationError.at("config.learning_rate", `holds ${rates.length} values for ${batches} batches`);
}

/** Every epoch has batches of its own; its last one may be smaller. */
function batchesOf({ batchSize, epochs, validation }: SftSettings, conversations: number): number {
  const trained = conversations - (validation ? heldOutCount(validation, conversations) : 0);
  return epochs * Math.ceil(trained / batchSize);
}

/** The rows of one conversation; null: it is too long, and dropped. */
type Conversation = TokenRow[] | null;

interface Batch {
  /** Position among all batches of the job: its entry of a list of learning rates. */
  position: number;
  rows: TokenRow[];
  trajectories: number;
  dropped: number;
}

interface SftPlan {
  batches: Batch[];
  /** Of one epoch. */
  batchesPerEpoch: number;
  heldOut: TokenRow[];
  counts: Record<string, number>;
}

/** The conversations of a data file in its order; those with a row beyond `maxRowTokens` are dropped. @throws TrainingDataError */
async function readConversations(
  file: string,
  name: string,
  renderer: ConversationRenderer,
  turns: SftSettings["turns"],
  maxRowTokens: number,
  signal?: AbortSignal,
): Promise<Conversation[]> {
  const conversations: Conversation[] = [];
  for await (const { line, messages, tools } of readExamples(file, name)) {
    signal?.throwIfAborted();
    try {
      conversations.push(await conversationRows(messages, tools, renderer, turns, maxRowTokens, signal));
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof ClosedError || error instanceof UnavailableError) throw error;
      throw new TrainingDataError(name, line, (error as Error).message, error);
    }
  }
  return conversations;
}

/** Which conversations are trained when. Follows from the conversations and the settings. */
export async function planBatches(conversations: readonly Conversation[], settings: SftSettings): Promise<SftPlan> {
  const { batchSize, epochs, shuffle, seed, validation } = settings;
  const isHeldOut = validation ? await heldOut(validation, conversations.length, seed) : new Set<number>();
  const trained = conversations.filter((_, i) => !isHeldOut.has(i));
  const batches: Batch[] = [];
  for (let epoch = 0; epoch < epochs; epoch++) {
    const order = shuffle ? await shuffledAsync(seed, trained.length, epoch) : [...trained.keys()];
    for (let from = 0; from < order.length; from += batchSize) {
      const members = order.slice(from, from + batchSize).map((i) => trained[i]!);
      batches.push({
        position: batches.length,
        rows: members.flatMap((rows) => rows ?? []),
        trajectories: members.length,
        dropped: members.filter((rows) => rows === null).length,
      });
    }
  }
  const kept = conversations.filter((_, i) => isHeldOut.has(i)).flatMap((rows) => rows ?? []);
  return {
    batches,
    batchesPerEpoch: batches.length / epochs,
    heldOut: kept.filter((row) => countTrained(row) > 0),
    counts: {
      num_trajectories: conversations.length,
      num_dropped_trajectories: conversations.filter((rows) => rows === null).length,
      ...(validation ? { num_validation_trajectories: isHeldOut.size } : {}),
    },
  };
}

/** Prepares an SFT job, asked for at `createdAt`, from its copy of the data; `name` is what the data is called in messages. */
export async function createSftRecipe(
  file: string,
  name: string,
  settings: SftSettings,
  base: TrainingBase,
  createdAt: Date,
  signal?: AbortSignal,
): Promise<Recipe> {
  const renderer = createPromptRenderer(base, createdAt);
  const conversations = await readConversations(file, name, renderer, settings.turns, base.contextLength, signal);
  checkRateCount(settings, conversations.length);
  const plan = await planBatches(conversations, settings);
  const given = settings.learningRate;
  const rates = Array.isArray(given) ? given : learningRates(given, plan.batches.length);
  const trainable = plan.batches.filter((batch) => batch.rows.some((row) => countTrained(row) > 0));
  const dropped = plan.counts.num_dropped_trajectories!;
  const warnings =
    dropped > 0 ? [`${dropped} conversations longer than ${base.contextLength} tokens were dropped`] : [];
  const untrained = conversations.filter((rows) => rows?.every((row) => countTrained(row) === 0)).length;
  if (untrained > 0) warnings.push(`${untrained} conversations have no turn of weight 1 and train nothing`);
  if (settings.validation && plan.heldOut.length === 0) {
    warnings.push(
      "nothing could be held out for validation: there are too few conversations, or those held out train nothing",
    );
  }
  const validation = validationOf(plan, settings);
  return {
    objective: "sft",
    steps: trainable.length,
    started: { counts: plan.counts, warnings },
    validation,
    work: {
      ...(await workOf({ steps: trainable, heldOut: plan.heldOut, isSeparable: true, usesEntropy: false }, base)),
      evaluated: validation ? evaluationCount(trainable.length, validation) * computedTokens(plan.heldOut) : 0,
      probe: trainable[0]?.rows[0] ?? null,
    },
    async step(index, learner) {
      const batch = trainable[index]!;
      const started = performance.now();
      const learningRate = rates[batch.position]!;
      const { metrics } = await learner.forwardBackward(batch.rows, crossEntropyLoss(batch.rows));
      const { gradNorm } = await learner.optimStep({ learningRate });
      const tokens = batch.rows.reduce((total, row) => total + row.tokens.length, 0);
      return finiteNumbers({
        ...metrics,
        learning_rate: learningRate,
        grad_norm: gradNorm,
        num_trajectories: batch.trajectories,
        num_tokens: tokens,
        num_dropped_trajectories: batch.dropped,
        tokens_per_second: tokens / Math.max((performance.now() - started) / 1000, 1e-9),
      });
    },
    close() {},
  };
}

function validationOf(
  { heldOut: rows, batchesPerEpoch }: SftPlan,
  { validation }: SftSettings,
): RecipeValidation | null {
  if (!validation || rows.length === 0) return null;
  const loss = crossEntropyLoss(rows);
  return {
    ...validation,
    interval: validation.interval ?? batchesPerEpoch,
    loss: async (learner) => loss(await learner.logprobs(rows)).metrics.loss!,
  };
}
