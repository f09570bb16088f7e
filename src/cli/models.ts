import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Engine } from "../engine/engine.js";
import { isHome } from "../store/homeFolder.js";
import { findModel } from "./findModel.js";
import { defaultHome, engineFlags, engineUsage, readEngineOptions, readFlags, readName, UsageError } from "./flags.js";
import { openExistingHome, openHome } from "./openHome.js";

export const usage = `anneal models [list]
anneal models create PROJECT/NAME [--base MODEL]
anneal models import PROJECT/NAME ADAPTER_FOLDER [--base MODEL]
anneal models checkpoints NAME
anneal models delete NAME

The models of a home. NAME is PROJECT/NAME, ENTITY/PROJECT/NAME or an id. Works beside a running server.

  --home PATH            (default ~/.anneal)
  --base MODEL           the base model's id (default: the first one served)
${engineUsage}`;

const options = { ...engineFlags, base: { type: "string" } } as const;

export async function models(args: readonly string[]): Promise<number> {
  const { values, positionals } = readFlags(args, options);
  if (values.help) {
    console.log(usage);
    return 0;
  }
  const [verb = "list", target, source] = positionals;
  const arity = { list: 1, create: 2, import: 3, checkpoints: 2, delete: 2 }[verb];
  if (arity === undefined || positionals.length > arity || (positionals.length < arity && verb !== "list")) {
    throw new UsageError("models takes list, create, import, checkpoints or delete");
  }
  const name = verb === "create" || verb === "import" ? readName(target) : null;
  const engineOptions = readEngineOptions(values);
  if (source && !existsSync(source)) throw new UsageError(`there is no folder ${source}`);
  if (source) engineOptions.dataRoots = [...(engineOptions.dataRoots ?? []), resolve(source)];
  const home = values.home ?? defaultHome();
  const open = name === null ? openExistingHome : openHome;
  // What can be served is told before anything is kept.
  const nothingKept = verb === "list" && values.home === undefined && !isHome(home);
  await using engine = nothingKept ? await Engine.open(engineOptions) : await open(home, engineOptions);
  const base_model = values.base ?? (await engine.baseModels.list())[0]!;
  if (verb === "list") {
    for (const model of (await engine.models.list()).data) console.log([model.id, model.root].join("\t"));
  } else if (verb === "create") {
    console.log((await engine.models.create({ ...name!, base_model })).id);
  } else if (verb === "import") {
    console.log((await engine.models.import({ ...name!, base_model, path: resolve(source!) })).id);
  } else if (verb === "checkpoints") {
    for await (const { step, metrics } of engine.checkpoints.list((await findModel(engine, target!)).id)) {
      console.log([step, JSON.stringify(metrics)].join("\t"));
    }
  } else {
    const { deleted_checkpoints } = await engine.models.delete((await findModel(engine, target!)).id);
    console.log(`deleted, with its checkpoints (${deleted_checkpoints})`);
  }
  return 0;
}
