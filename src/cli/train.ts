import { readFile, stat } from "node:fs/promises";
import { AnnealError, ConflictError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { TrainProgress } from "../types/gather.js";
import type { Model, ModelCreateParams } from "../types/models.js";
import { defineCommand } from "./command.js";
import { defaultHome, engineFlags, readEngineOptions } from "./engineFlags.js";
import { readName } from "./findModel.js";
import { integer, number, text, UsageError, type Values } from "./flags.js";
import { openHome } from "./openHome.js";
import { ProgressBar, statusLine } from "./progress.js";
import { rewardCurve } from "./rewardCurve.js";
import { shortNumber } from "./terminalText.js";
import { loadTrainingModule } from "./trainingModule.js";

const flags = {
  base: text("MODEL", "the base model's id (default: the first one served)"),
  "learning-rate": number(
    "X",
    "(default: 5e-5 for a file; what the module says, or 5e-6)",
    (rate) => rate >= 0,
    "from 0, such as 1e-5",
  ),
  epochs: integer("N", "passes over a file (default 1)"),
  "batch-size": integer("N", "conversations of an optimizer step, for a file (default 2)"),
  steps: integer("N", "instead of the module's"),
  ...engineFlags,
};

type Given = Values<typeof flags>;

export const train = defineCommand({
  name: "train",
  arguments: ["PROJECT/NAME", "FILE"],
  summary: "train a model on conversations, or by a reward",
  details: `Trains a model, making it if it is not there, and shows how it goes. FILE is either

  a .jsonl file    conversations to imitate: on each line an object with "messages" and, if it has them, "tools"
  a module         reinforcement learning: its default export is what the library's \`train\` takes, without \`model\`:
                   { scenarios, rollout, groupSize, steps, ... }

Every pass over a file and every step of a module leaves a checkpoint. Ctrl-C cancels the job under way; what was made
before stays. Works beside a running server.`,
  flags,
  run: (values, [target, file]) => trainOn(target!, file!, values),
});

/** One way of training; answers with the last step made, null when none was. */
type Recipe = (engine: AnnealClient, model: Model, signal: AbortSignal) => Promise<number | null>;

async function trainOn(target: string, file: string, values: Given): Promise<number> {
  const name = readName(target);
  const isFile = await stat(file)
    .then((found) => found.isFile())
    .catch(() => false);
  if (!isFile) throw new UsageError(`there is no file ${file}`);
  const recipe = await (/\.jsonl$/i.test(file) ? imitation(file, values) : rewarded(file, values));
  const interrupt = new AbortController();
  const stop = () => interrupt.abort();
  await using engine = await openHome(values.home ?? defaultHome(), readEngineOptions(values));
  process.once("SIGINT", stop);
  try {
    const base_model = values.base ?? (await engine.baseModels.list())[0]!;
    const { model, isNew } = await findOrCreate(engine, { ...name, base_model });
    try {
      const step = await recipe(engine, model, interrupt.signal);
      if (step !== null) console.log(`Served as ${model.entity}/${model.project}/${model.name}:step${step}`);
    } catch (error) {
      // A model that has learned nothing is of no use to anyone.
      const latest = await engine.checkpoints.list(model.id, { limit: 1, order: "desc" });
      if (isNew && latest.data[0]?.step === 0) await engine.models.delete(model.id);
      throw error;
    }
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
    process.stderr.write("cancelled; checkpoints that were made stay\n");
  } finally {
    statusLine(null);
    process.off("SIGINT", stop);
  }
  return interrupt.signal.aborted ? 130 : 0;
}

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

/** Flags that say nothing about this kind of file. @throws UsageError */
function refuse(values: Given, names: readonly (keyof Given)[], kind: string): void {
  const given = names.find((name) => values[name] !== undefined);
  if (given) throw new UsageError(`--${given} has no meaning for a ${kind}`);
}

/** Supervised passes over the conversations of a file. @throws TrainingDataError naming a line of it that is none. */
async function imitation(file: string, values: Given): Promise<Recipe> {
  refuse(values, ["steps"], ".jsonl file");
  const { checkTrainingData, Engine } = await import("../index.js");
  await checkTrainingData(file);
  const epochs = values.epochs ?? 1;
  const config = {
    learning_rate: values["learning-rate"] ?? null,
    batch_size: values["batch-size"] ?? null,
  };
  return async (engine, model, signal) => {
    const url = engine instanceof Engine ? file : await upload(engine, model, file);
    let step: number | null = null;
    for (let epoch = 1; epoch <= epochs; epoch++) {
      const { id } = await engine.sftTrainingJobs.create({ model_id: model.id, training_data_url: url, config });
      try {
        step = await followPass(engine, id, `pass ${epoch} of ${epochs}`, signal);
      } catch (error) {
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
      if (event.type === "gradient_step") losses.push(event.data["loss/train"] ?? event.data.loss!);
      const loss = losses.length > 0 ? `, loss ${shortNumber(losses.at(-1)!)}` : "";
      bar.show(losses.length, batches, loss);
    }
  } finally {
    bar.end();
  }
  const { step } = await engine.trainingJobs.wait(id, { signal });
  for (const warning of warnings) process.stderr.write(`  ${warning}\n`);
  const mean = losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
  console.log(`${what}: ${losses.length} batches${losses.length > 0 ? `, mean loss ${shortNumber(mean)}` : ""}`);
  return step;
}

/** Reinforcement learning as a module describes it. */
async function rewarded(file: string, values: Given): Promise<Recipe> {
  refuse(values, ["epochs", "batch-size"], "module");
  const given = await loadTrainingModule(file);
  const steps = values.steps ?? given.steps;
  const rate = values["learning-rate"];
  const config = rate === undefined ? given.config : { ...given.config, learning_rate: rate };
  return async (engine, model, signal) => {
    const rewards: number[] = [];
    let last: number | null = null;
    const { train: trainByReward } = await import("../index.js");
    const run = { ...given, model, steps, config, signal, onProgress: showProgress };
    for await (const { step, train, validation, seconds, warnings } of trainByReward(engine, run)) {
      statusLine(null);
      const scores = [`reward ${train.reward === null ? "none" : shortNumber(train.reward)}`];
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

function showProgress({ phase, step, done, total, meanReward }: TrainProgress): void {
  const reward = meanReward === null ? "" : `, mean reward ${shortNumber(meanReward)}`;
  statusLine(`from step ${step}: ${phase}, ${done} of ${total}${reward}`);
}
