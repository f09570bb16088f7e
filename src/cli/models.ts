import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Checkpoint, ModelEntry } from "../types/models.js";
import { defaultHome } from "../userFolder.js";
import { type CommandGroup, defineCommand } from "./command.js";
import { engineFlags, readEngineOptions } from "./engineFlags.js";
import { findModel, readName } from "./findModel.js";
import { text, UsageError } from "./flags.js";
import { json, printListing } from "./listing.js";
import { openEngine, openExistingHome, openHome } from "./openHome.js";
import { shortNumber } from "./terminalText.js";

const naming = "NAME is PROJECT/NAME, ENTITY/PROJECT/NAME or an id. Works beside a running server.";

const base = text("MODEL", "the base model's id (default: the first one served)");

const list = defineCommand({
  name: "models list",
  summary: "show what can be served: base models and trained ones",
  flags: { json, ...engineFlags },
  async run(values) {
    const home = values.home ?? defaultHome();
    const { isHome } = await import("../index.js");
    // What can be served is told before anything is kept.
    const nothingKept = values.home === undefined && !isHome(home);
    await using engine = nothingKept ? await openEngine(readEngineOptions(values)) : await openExistingHome(values);
    const columns = [
      { title: "ID", cell: (model: ModelEntry) => model.id },
      { title: "NOW", cell: (model: ModelEntry) => model.root },
    ];
    printListing((await engine.models.list()).data, columns, values.json);
    return 0;
  },
});

const create = defineCommand({
  name: "models create",
  arguments: ["PROJECT/NAME"],
  summary: "make a model that can be trained",
  flags: { base, ...engineFlags },
  async run(values, [target]) {
    const name = readName(target!);
    await using engine = await openHome(values);
    const base_model = values.base ?? (await engine.baseModels.list())[0]!;
    console.log((await engine.models.create({ ...name, base_model })).id);
    return 0;
  },
});

const importAdapter = defineCommand({
  name: "models import",
  arguments: ["PROJECT/NAME", "ADAPTER_FOLDER"],
  summary: "make a model of a PEFT adapter",
  flags: { base, ...engineFlags },
  async run(values, [target, source]) {
    const name = readName(target!);
    const path = resolve(source!);
    if (!existsSync(path)) throw new UsageError(`there is no folder ${source}`);
    await using engine = await openHome(values);
    const base_model = values.base ?? (await engine.baseModels.list())[0]!;
    console.log((await engine.models.import({ ...name, base_model, path })).id);
    return 0;
  },
});

const checkpoints = defineCommand({
  name: "models checkpoints",
  arguments: ["NAME"],
  summary: "show a model's checkpoints",
  details: `Shows a model's checkpoints: step, date, score (the reward in validation, or else in training), size and folder. With --json
all their metrics. ${naming}`,
  flags: { json, ...engineFlags },
  async run(values, [target]) {
    await using engine = await openExistingHome(values);
    const { id } = await findModel(engine, target!);
    const found: Checkpoint[] = [];
    for await (const checkpoint of engine.checkpoints.list(id, { limit: 100 })) found.push(checkpoint);
    const columns = [
      { title: "STEP", cell: (checkpoint: Checkpoint) => checkpoint.step },
      { title: "DATE", cell: (checkpoint: Checkpoint) => checkpoint.created_at.replace(/\.\d+Z$/, "Z") },
      { title: "SCORE", cell: scoreOf },
      { title: "SIZE", cell: (checkpoint: Checkpoint) => `${(checkpoint.bytes / 2 ** 20).toFixed(1)}M` },
      { title: "FOLDER", cell: (checkpoint: Checkpoint) => checkpoint.path ?? null },
    ];
    printListing(found, columns, values.json);
    return 0;
  },
});

function scoreOf({ metrics }: Checkpoint): string | null {
  const score = metrics["val/reward"] ?? metrics["train/reward"];
  return score === undefined ? null : shortNumber(score);
}

const rollback = defineCommand({
  name: "models rollback",
  arguments: ["NAME", "STEP"],
  summary: "make an earlier step the latest again",
  details: `Makes a new checkpoint with the weights of an earlier one, from which training goes on; all checkpoints stay. ${naming}`,
  flags: engineFlags,
  async run(values, [target, given]) {
    if (!/^\d{1,15}$/.test(given!)) throw new UsageError(`a step is a whole number, not "${given}"`);
    await using engine = await openExistingHome(values);
    const model = await findModel(engine, target!);
    const { step } = await engine.models.rollback(model.id, Number(given));
    console.log(`${model.name}:step${step} is what it was at step ${given}`);
    return 0;
  },
});

const remove = defineCommand({
  name: "models delete",
  arguments: ["NAME"],
  summary: "delete a model with its checkpoints",
  details: `Deletes a model with its checkpoints, and cancels its jobs. ${naming}`,
  flags: engineFlags,
  async run(values, [target]) {
    await using engine = await openExistingHome(values);
    const { deleted_checkpoints } = await engine.models.delete((await findModel(engine, target!)).id);
    console.log(`deleted, with its checkpoints (${deleted_checkpoints})`);
    return 0;
  },
});

export const models: CommandGroup = {
  name: "models",
  summary: "list, create, import and delete models",
  commands: [list, create, importAdapter, checkpoints, rollback, remove],
};
