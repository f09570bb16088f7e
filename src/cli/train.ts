import { readFile, stat } from "node:fs/promises";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { AnnealError, ConflictError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { TrainProgress } from "../types/gather.js";
import type { Model, ModelCreateParams } from "../types/models.js";
import type { SftConfig } from "../types/training.js";
import { defineCommand } from "./command.js";
import { engineFlags } from "./engineFlags.js";
import { readName } from "./findModel.js";
import { choice, integer, number, text, toggle, UsageError, type Values } from "./flags.js";
import { interrupted } from "./interrupted.js";
import { openHome } from "./openHome.js";
import { ProgressBar, statusLine } from "./progress.js";
import { rewardCurve } from "./rewardCurve.js";
import { shortNumber } from "./terminalText.js";
import { checkModuleName, loadTrainingModule } from "./trainingModule.js";

const isShare = (given: number) => given >= 0 && given <= 1;
const isPart = (given: number) => given >= 0 && given < 1;

const flags = {
  base: text("MODEL", "the base model's id (default: the first one served)"),
  "learning-rate": number(
    "X",
    "(default: 5e-5 for a file; what the module says, or 5e-6)",
    (rate) => rate >= 0,
    "from 0, such as 1e-5",
  ),
  schedule: choice("KIND", ["constant", "linear", "cosine"], "how the learning rate falls; default constant"),
  warmup: number("SHARE", "of the steps, over which it rises from 0 first (default 0)", isShare, "from 0 to 1"),
  epochs: integer("N", "passes over a file (default 1)"),
  "batch-size": integer("N", "conversations of an optimizer step, for a file (default 2)"),
  shuffle: toggle("another order in every pass over a file"),
  turns: choice("WHICH", ["all", "last"], "the assistant's turns of a file that are trained; default all"),
  validation: number("SHARE", "held out of what is trained on, to measure the loss with", isPart, "from 0, below 1"),
  patience: integer("N", "looks at what is held out without improvement, after which a job ends"),
  "keep-best": toggle("end with the weights that were best on what is held out"),
  entropy: number("X", "bonus for undecided tokens, for a module", (given) => given >= 0, "from 0, such as 0.001"),
  steps: integer("N", "instead of the module's"),
  ...engineFlags,
};

type Given = Values<typeof flags>;

export const train = defineCommand({
  name: "train",
  arguments: ["PROJECT/NAME", "FILE"],
  summary: "train a model on conversations, or by a reward",
  details: `Trains a model, making it if it is not there, and shows how it goes. FILE is either

  .jsonl, .ndjson  conversations to imitate: on each line an object with "messages" and, if it has them, "tools"
  a .json file     the same as one array
  a module         reinforcement learning: its default export is what the library's \`train\` takes, without \`model\`:
                   { scenarios, rollout, groupSize, steps, ... }

Every step of a module leaves a checkpoint, and so does every pass over a file; with --schedule, --warmup, --shuffle, --validation,
--patience or --keep-best all passes are one job, which leaves one. Ctrl-C cancels the job under way; what was made before
stays. SIGTERM leaves a job on a file where it stands: it goes on when the home is opened again. A second signal, or 15
seconds, end the process at once. Works beside a running server.`,
  flags,
  run: (values, [target, file]) => trainOn(target!, file!, values),
});

/** One way of training; answers with the last step made, null when none was. */
type Recipe = (engine: AnnealClient, model: Model, signal: AbortSignal) => Promise<number | null>;

async function trainOn(target: string, file: string, values: Given): Promise<number> {
  const name = readName(target);
  const found = await stat(file).catch(() => null);
  if (found === null) throw new UsageError(`there is no file ${file}`);
  if (!found.isFile())
    throw new UsageError(`${file} is ${found.isDirectory() ? "a folder" : "a device or a pipe"}, not a file`);
  const recipe = await (isConversations(file) ? imitation(file, values) : rewarded(file, values));
  const interrupt = new AbortController();
  const over = new AbortController();
  await using engine = await openHome(values);
  void interrupted(undefined, over.signal).then((signal) => interrupt.abort(signal));
  try {
    const base_model = values.base ?? (await engine.baseModels.list())[0]!;
    const { model, isNew } = await findOrCreate(engine, { ...name, base_model });
    void tellOfFullDisk(engine, model, over.signal).catch(() => undefined);
    try {
      const step = await recipe(engine, model, interrupt.signal);
      if (step !== null) console.log(`Served as ${model.entity}/${model.project}/${model.name}:step${step}`);
    } catch (error) {
      if (error instanceof LeftToGoOn) throw error;
      // A model that has learned nothing is of no use to anyone.
      const latest = await engine.checkpoints.list(model.id, { limit: 1, order: "desc" });
      if (isNew && latest.data[0]?.step === 0) await engine.models.delete(model.id);
      throw error;
    }
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
    const said = error instanceof LeftToGoOn ? error.message : "cancelled; checkpoints that were made stay";
    process.stderr.write(`${said}\n`);
  } finally {
    statusLine(null);
    over.abort();
  }
  if (!interrupt.signal.aborted) return 0;
  return 128 + constants.signals[interrupt.signal.reason as NodeJS.Signals];
}

/** Between two looks at whether a job waits for room on the disk, in milliseconds. */
const LOOK_EVERY = 1000;

/** Says on standard error that a job of the model waits for room on the disk, and when none does any more. */
async function tellOfFullDisk(engine: AnnealClient, { id }: Model, signal: AbortSignal): Promise<never> {
  for (let told = false; ; ) {
    await sleep(LOOK_EVERY, undefined, { signal, ref: false });
    const { data } = await engine.trainingJobs.list({ model_id: id, order: "desc" }, { signal });
    const waits = data.some((job) => job.waits_for === "disk_space");
    if (waits === told) continue;
    told = waits;
    statusLine(null);
    process.stderr.write(waits ? "the disk is full: training waits for room on it\n" : "training goes on\n");
  }
}

/** A job was left to go on without this process. */
class LeftToGoOn extends Error {}

async function findOrCreate(
  engine: AnnealClient,
  params: ModelCreateParams,
): Promise<{ model: Model; isNew: boolean }> {
  try {
    return { model: await engine.models.create(params), isNew: true };
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    return { model: await engine.models.create({ ...params, return_existing: true }), isNew: false };
  }
}

const isConversations = (file: string): boolean => /\.(jsonl|ndjson|json)$/i.test(file);

/** Flags that say nothing about this kind of file. @throws UsageError */
function refuse(values: Given, names: readonly (keyof Given)[], kind: string): void {
  const given = names.find((name) => values[name] !== undefined);
  if (given) throw new UsageError(`--${given} has no meaning for a ${kind}`);
}

/** Settings of a schedule or of what is held out are those of all passes together. */
const OF_ONE_JOB = ["schedule", "warmup", "shuffle", "validation", "patience", "keep-best"] as const;

/** What jobs of either kind can be told. */
function sharedConfig(values: Given) {
  return {
    learning_rate_schedule: values.schedule,
    warmup_ratio: values.warmup,
    validation_ratio: values.validation,
    early_stopping_patience: values.patience,
    keep_best: values["keep-best"],
  };
}

/** Supervised passes over the conversations of a file. @throws TrainingDataError naming a line of it that is none. */
async function imitation(file: string, values: Given): Promise<Recipe> {
  refuse(values, ["steps", "entropy"], "file of conversations");
  const needing = (["patience", "keep-best"] as const).find((name) => values[name]);
  if (needing && !values.validation) throw new UsageError(`--${needing} needs --validation above 0`);
  const { checkTrainingData, Engine } = await import("../index.js");
  await checkTrainingData(file);
  const epochs = values.epochs ?? 1;
  const isOneJob = OF_ONE_JOB.some((name) => values[name] !== undefined);
  const jobs = isOneJob ? 1 : epochs;
  const config: SftConfig = {
    ...sharedConfig(values),
    learning_rate: values["learning-rate"] ?? null,
    batch_size: values["batch-size"] ?? null,
    assistant_turns: values.turns ?? null,
    shuffle: values.shuffle ?? null,
    num_epochs: isOneJob ? epochs : null,
  };
  return async (engine, model, signal) => {
    const url = engine instanceof Engine ? file : await upload(engine, model, file);
    let step: number | null = null;
    for (let pass = 1; pass <= jobs; pass++) {
      const { id } = await engine.sftTrainingJobs.create({ model_id: model.id, training_data_url: url, config });
      try {
        step = await followPass(engine, id, isOneJob ? `${epochs} passes` : `pass ${pass} of ${epochs}`, signal);
      } catch (error) {
        if (signal.aborted && signal.reason === "SIGTERM") {
          const when = engine instanceof Engine ? "when the home is opened again" : "in the server";
          throw new LeftToGoOn(`stopped; job ${id} goes on ${when}`);
        }
        if (signal.aborted) await engine.trainingJobs.cancel(id);
        // Its user knows the file, not what became of it.
        if (error instanceof AnnealError) error.message = error.message.replaceAll(`${url}/${UPLOADED}`, file);
        throw error;
      }
    }
    return step;
  };
}

const UPLOADED = "train.jsonl";

/** Brings the data to an engine of another process. */
async function upload(engine: AnnealClient, { entity, project, name }: Model, file: string): Promise<string> {
  const files = { [UPLOADED]: await readFile(file) };
  return (await engine.artifacts.create({ entity, project, name: `${name}-data`, files })).url;
}

async function followPass(engine: AnnealClient, id: string, what: string, signal: AbortSignal): Promise<number | null> {
  const losses: number[] = [];
  const heldOut: number[] = [];
  const warnings: string[] = [];
  let batches = 0;
  let bar = new ProgressBar(what);
  try {
    for await (const event of engine.trainingJobs.events(id, {}, { signal })) {
      if (event.type === "training_started") {
        batches = event.data.num_sequences;
        // What came before was waiting.
        bar.end();
        bar = new ProgressBar(what);
        warnings.push(...(event.data.warnings ?? []));
      }
      if (event.type === "gradient_step") {
        losses.push(event.data["loss/train"] ?? event.data.loss!);
        if (event.data["val/loss"] !== undefined) heldOut.push(event.data["val/loss"]);
      }
      const loss = losses.length > 0 ? `, loss ${shortNumber(losses.at(-1)!)}` : "";
      bar.show(losses.length, batches, loss);
    }
  } finally {
    bar.end();
  }
  const { step } = await engine.trainingJobs.wait(id, { signal });
  for (const warning of warnings) process.stderr.write(`  ${warning}\n`);
  const mean = losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
  const scores = [`${losses.length} batches`];
  if (losses.length > 0) scores.push(`mean loss ${shortNumber(mean)}`);
  if (heldOut.length > 0) scores.push(`validation loss ${heldOut.map(shortNumber).join(" ")}`);
  console.log(`${what}: ${scores.join(", ")}`);
  return step;
}

/** Reinforcement learning as a module describes it. */
async function rewarded(file: string, values: Given): Promise<Recipe> {
  checkModuleName(file);
  refuse(values, ["epochs", "batch-size", "shuffle", "turns"], "module");
  const given = await loadTrainingModule(file);
  const steps = values.steps ?? given.steps;
  const own = { ...sharedConfig(values), learning_rate: values["learning-rate"], entropy_coef: values.entropy };
  const config = {
    ...given.config,
    ...Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined)),
  };
  return async (engine, model, signal) => {
    const rewards: number[] = [];
    let last: number | null = null;
    const { train: trainByReward } = await import("../index.js");
    using progress = new PhaseProgress();
    const run = { ...given, model, steps, config, signal, onProgress: progress.show };
    for await (const { step, train, validation, seconds, warnings } of trainByReward(engine, run)) {
      progress.end();
      // Rewards are those of the step that was trained from, as in `anneal runs`.
      const scores = [`reward ${train.reward === null ? "none" : shortNumber(train.reward)} at step ${step - 1}`];
      if (validation?.reward != null) scores.push(`validation ${shortNumber(validation.reward)}`);
      const time = seconds.rollout + seconds.training + seconds.validation;
      console.log(`step ${step}: ${scores.join(", ")}, ${time.toFixed(1)} s`);
      for (const warning of warnings) process.stderr.write(`  ${warning}\n`);
      rewards.push(train.reward ?? 0);
      last = step;
    }
    const range = { from: Math.min(0, ...rewards), to: Math.max(1, ...rewards) };
    for (const line of rewardCurve(rewards, range)) console.log(line);
    return last;
  };
}

/** The phases of steps, one bar after the other. */
class PhaseProgress {
  private bar: ProgressBar | null = null;
  private what = "";

  readonly show = ({ phase, step, done, total, meanReward }: TrainProgress): void => {
    const what = `from step ${step}: ${phase}`;
    if (what !== this.what) {
      this.end();
      this.bar = new ProgressBar(what);
      this.what = what;
    }
    this.bar!.show(done, total, meanReward === null ? "" : `, mean reward ${shortNumber(meanReward)}`);
  };

  end(): void {
    this.bar?.end();
    this.what = "";
  }

  [Symbol.dispose](): void {
    this.end();
  }
}
