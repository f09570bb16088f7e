// Supervised fine-tuning: conversations to batches to one cross-entropy step per batch.

import { ValidationError, type ValidationIssue } from "../errors.js";
import type { SftConfig } from "../types/training.js";
import { type ConversationRenderer, conversationRows } from "./conversationRows.js";
import type { TrainingBase } from "./host.js";
import { type LearningRateSettings, learningRates } from "./learningRates.js";
import { countTrained, crossEntropyLoss } from "./losses.js";
import { createPromptRenderer } from "./promptRenderer.js";
import { finiteNumbers, MAX_LEARNING_RATE, type Recipe } from "./recipe.js";
import type { TokenRow } from "./rows.js";
import { countExamples, isRemote, readExamples, TrainingDataError } from "./sftData.js";

export interface SftSettings {
  batchSize: number;
  /** What the values of all batches follow from, or one per batch. */
  learningRate: LearningRateSettings | number[];
  turns: "all" | "last";
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
  const logging = config?.metric_logging;
  const target = logging?.target_training_step ?? nextStep;
  if (!Number.isInteger(target) || target < 0)
    reject("metric_logging.target_training_step", "must be a whole number, at least 0");
  if (issues.length > 0) throw new ValidationError(issues);
  return {
    batchSize,
    learningRate: Array.isArray(learningRate) ? learningRate : { peak: learningRate, schedule, warmupRatio },
    turns: config?.assistant_turns ?? "all",
    loggingStep: logging?.enabled ? target : null,
  };
}

/**
 * Counts the conversations that a list of learning rates is for, where they lie on this machine.
 * @throws ValidationError unless it holds one per batch; TrainingDataError when the file cannot be read.
 */
export async function checkRatesOfFile(
  { batchSize, learningRate }: SftSettings,
  data: string,
  name: string,
): Promise<void> {
  if (!Array.isArray(learningRate) || isRemote(data)) return;
  checkRateCount(learningRate, Math.ceil((await countExamples(data, name)) / batchSize));
}

export function checkRateCount(rates: readonly number[], batches: number): void {
  if (rates.length === batches) return;
  throw ValidationError.at("config.learning_rate", `holds ${rates.length} values for ${batches} batches`);
}

interface Batch {
  /** Position among all batches of the data: its entry of a list of learning rates. */
  position: number;
  rows: TokenRow[];
  trajectories: number;
  dropped: number;
}

/** The batches of a data file in its order; conversations with a row beyond `maxRowTokens` are dropped. @throws TrainingDataError */
export async function planBatches(
  file: string,
  name: string,
  renderer: ConversationRenderer,
  settings: SftSettings,
  maxRowTokens: number,
  signal?: AbortSignal,
): Promise<Batch[]> {
  const batches: Batch[] = [];
  for await (const { line, messages, tools } of readExamples(file, name)) {
    let batch = batches.at(-1);
    if (batch === undefined || batch.trajectories === settings.batchSize) {
      batch = { position: batches.length, rows: [], trajectories: 0, dropped: 0 };
      batches.push(batch);
    }
    signal?.throwIfAborted();
    let rows: TokenRow[] | null;
    try {
      rows = await conversationRows(messages, tools, renderer, settings.turns, maxRowTokens);
    } catch (error) {
      throw new TrainingDataError(name, line, (error as Error).message, error);
    }
    batch.trajectories += 1;
    if (rows === null) batch.dropped += 1;
    else batch.rows.push(...rows);
  }
  if (batches.length === 0) throw new TrainingDataError(name, null, "holds no conversation");
  return batches;
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
  const batches = await planBatches(file, name, renderer, settings, base.contextLength, signal);
  const given = settings.learningRate;
  const rates = Array.isArray(given) ? given : learningRates(given, batches.length);
  checkRateCount(rates, batches.length);
  const trainable = batches.filter((batch) => batch.rows.some((row) => countTrained(row) > 0));
  const sum = (of: (batch: Batch) => number) => batches.reduce((total, batch) => total + of(batch), 0);
  const dropped = sum((batch) => batch.dropped);
  return {
    objective: "sft",
    steps: trainable.length,
    started: {
      counts: { num_trajectories: sum((batch) => batch.trajectories), num_dropped_trajectories: dropped },
      warnings: dropped > 0 ? [`${dropped} conversations longer than ${base.contextLength} tokens were dropped`] : [],
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
