import { NotFoundError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { Checkpoint } from "../types/models.js";
import type { LoggedGroup, Trajectory } from "../types/trajectories.js";
import { type CommandGroup, defineCommand } from "./command.js";
import { engineFlags } from "./engineFlags.js";
import { type FoundModel, findModel, trainedModels } from "./findModel.js";
import { integer } from "./flags.js";
import { json, printListing } from "./listing.js";
import { openExistingHome } from "./openHome.js";
import { rewardCurve } from "./rewardCurve.js";
import { printable, shortNumber } from "./terminalText.js";
import { trajectoryText } from "./trajectoryText.js";

const list = defineCommand({
  name: "runs list",
  summary: "show the models that were trained, and how far",
  flags: { json, ...engineFlags },
  async run(values) {
    await using engine = await openExistingHome(values);
    const runs = await listRuns(engine);
    const metric = (name: string) => ({
      title: name.toUpperCase(),
      cell: ({ metrics }: RunSummary) => (metrics[name] === undefined ? null : shortNumber(metrics[name])),
    });
    const columns = [
      { title: "NAME", cell: (run: RunSummary) => run.name },
      { title: "BASE", cell: (run: RunSummary) => run.base },
      { title: "STEP", cell: (run: RunSummary) => run.step },
      ...["train/reward", "val/reward", "loss/train"].map(metric),
    ];
    printListing(runs, columns, values.json);
    return 0;
  },
});

const show = defineCommand({
  name: "runs show",
  arguments: ["NAME"],
  summary: "draw a model's rewards, metrics and trajectories",
  details: `What training did: rewards over steps, metrics, and the best, median and worst trajectory of a step. NAME is a model's
name, PROJECT/NAME or ENTITY/PROJECT/NAME. Works beside a running server.`,
  flags: { step: integer("N", "(default: the last step with trajectories)", { from: 0 }), json, ...engineFlags },
  async run(values, [name]) {
    await using engine = await openExistingHome(values);
    const run = await readRun(engine, name!, values.step);
    if (values.json) console.log(JSON.stringify(run, null, 2));
    else for (const line of runText(run)) console.log(line);
    return 0;
  },
});

export const runs: CommandGroup = {
  name: "runs",
  summary: "show what the training of models did",
  commands: [list, show],
};

interface RunSummary extends FoundModel {
  /** The latest one. */
  step: number;
  /** The last value of each metric that there is, of whatever step. */
  metrics: Record<string, number>;
}

/** Every trained model of an engine. */
export async function listRuns(engine: AnnealClient): Promise<RunSummary[]> {
  const models = trainedModels((await engine.models.list()).data);
  return Promise.all(
    models.map(async (model) => {
      const checkpoints = await checkpointsOf(engine, model);
      const history = await historyOf(engine, model, checkpoints);
      const metrics = Object.assign({}, ...history.map((entry) => entry.metrics));
      return { ...model, step: checkpoints.at(-1)!.step, metrics };
    }),
  );
}

interface Run {
  model: FoundModel;
  /** The latest one. */
  step: number;
  /** Of every step. */
  history: StepMetrics[];
  /** null: no trajectories were logged. */
  shown: ShownTrajectories | null;
}

interface ShownTrajectories {
  step: number;
  split: string;
  /** The best first. */
  trajectories: Trajectory[];
}

/** @throws NotFoundError naming what there is, for a model or a step that there is not. */
export async function readRun(engine: AnnealClient, name: string, step?: number): Promise<Run> {
  const model = await findModel(engine, name);
  const checkpoints = await checkpointsOf(engine, model);
  const history = await historyOf(engine, model, checkpoints);
  const shown = await trajectoriesOf(engine, model, step ?? null, history);
  return { model, step: checkpoints.at(-1)!.step, history, shown };
}

async function checkpointsOf(engine: AnnealClient, { id }: FoundModel): Promise<Checkpoint[]> {
  const checkpoints: Checkpoint[] = [];
  for await (const checkpoint of engine.checkpoints.list(id, { limit: 100 })) checkpoints.push(checkpoint);
  return checkpoints;
}

export function runText({ model, step: latest, history, shown }: Run): string[] {
  const lines = [`${model.name}, trained from ${model.base}, at step ${latest}`];
  for (const metric of ["train/reward", "val/reward"]) lines.push(...curveOf(history, metric));
  lines.push("", ...metricTable(history));
  if (shown === null) return [...lines, "", "No trajectories were logged yet."];
  const metrics = history.find(({ step }) => step === shown.step)?.metrics ?? {};
  const ranked = shown.trajectories;
  lines.push("", `Step ${shown.step}, split ${shown.split}: ${ranked.length} trajectories`);
  for (const [key, value] of Object.entries(metrics).sort(([a], [b]) => (a < b ? -1 : 1))) {
    lines.push(`  ${printable(key).padEnd(40)} ${shortNumber(value)}`);
  }
  const places = [
    ["Best", 0],
    ["Median", Math.floor((ranked.length - 1) / 2)],
    ["Worst", ranked.length - 1],
  ] as const;
  for (const [place, index] of places) {
    const trajectory = ranked[index];
    if (!trajectory) break;
    lines.push("", `${place}, reward ${shortNumber(trajectory.reward)}`);
    for (const line of trajectoryText(trajectory)) lines.push(`  ${line}`);
  }
  return lines;
}

interface StepMetrics {
  step: number;
  metrics: Record<string, number>;
}

/** The last value of every metric at every step, those of deleted checkpoints too. */
async function historyOf(
  engine: AnnealClient,
  model: FoundModel,
  checkpoints: readonly Checkpoint[],
): Promise<StepMetrics[]> {
  const steps = new Map<number, Record<string, number>>();
  for await (const { step, metrics } of engine.models.metrics(model.id, { limit: 100 })) {
    steps.set(step, { ...steps.get(step), ...metrics });
  }
  for (const { step, metrics } of checkpoints) steps.set(step, { ...steps.get(step), ...metrics });
  return [...steps].map(([step, metrics]) => ({ step, metrics })).sort((a, b) => a.step - b.step);
}

function curveOf(history: readonly StepMetrics[], metric: string): string[] {
  const known = history.filter(({ metrics }) => metrics[metric] !== undefined);
  if (known.length === 0) return [];
  const values = known.map(({ metrics }) => metrics[metric]!);
  const range = { from: Math.min(0, ...values), to: Math.max(1, ...values) };
  const steps = `step ${known[0]!.step} to ${known.at(-1)!.step}`;
  return ["", `${metric}, ${steps}`, ...rewardCurve(values, range).map((line) => `  ${line}`)];
}

const columns = ["train/reward", "train/reward_std_dev", "val/reward", "loss/train", "loss/entropy", "loss/grad_norm"];

function metricTable(history: readonly StepMetrics[]): string[] {
  const shown = columns.filter((column) => history.some(({ metrics }) => metrics[column] !== undefined));
  const rows = history.map(({ step, metrics }) => [
    String(step),
    ...shown.map((column) => (metrics[column] === undefined ? "-" : shortNumber(metrics[column]))),
  ]);
  const table = [["step", ...shown], ...rows];
  const widths = table[0]!.map((_, c) => Math.max(...table.map((row) => row[c]!.length)));
  return table.map((row) => row.map((cell, c) => cell.padStart(widths[c]!)).join("  "));
}

/** The trajectories that show a step best: those it trained on if there are any. null: none were logged at any step. */
async function trajectoriesOf(
  engine: AnnealClient,
  model: FoundModel,
  step: number | null,
  history: readonly StepMetrics[],
): Promise<ShownTrajectories | null> {
  const at = async (wanted: number) => {
    const groups: LoggedGroup[] = [];
    for await (const group of engine.models.trajectories(model.id, { step: wanted })) groups.push(group);
    return groups;
  };
  const candidates = step === null ? history.map((one) => one.step).reverse() : [step];
  for (const candidate of candidates) {
    const groups = await at(candidate);
    const split = groups.some((group) => group.split === "train") ? "train" : groups[0]?.split;
    if (split === undefined) continue;
    const trajectories = groups.filter((group) => group.split === split).flatMap(({ group }) => group.trajectories);
    return { step: candidate, split, trajectories: trajectories.sort((a, b) => b.reward - a.reward) };
  }
  if (step === null) return null;
  throw new NotFoundError(
    `${model.name} has no trajectories at step ${step}; its latest step is ${history.at(-1)!.step}`,
    {
      code: "step_not_found",
      param: "step",
      hint: "a job's trajectories are those of the step it started from",
    },
  );
}
