import { NotFoundError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { ModelEntry } from "../types/models.js";
import { UsageError } from "./flags.js";

/** A trained model of a home. */
export interface FoundModel {
  id: string;
  /** `entity/project/name` */
  name: string;
  /** Id of its base model. */
  base: string;
}

/** What may follow a trained model's name: which step of it is meant. */
const stepSuffix = /:(?:step\d+|latest)$|@\d+$/;

/**
 * The trained model that a name, `project/name`, `entity/project/name` or an id stands for, whatever step is named after it.
 * @throws NotFoundError naming what there is; UsageError for a base model.
 */
export async function findModel(engine: AnnealClient, name: string): Promise<FoundModel> {
  const { data } = await engine.models.list();
  if (data.some(({ id, model_id }) => model_id === null && id === name)) {
    throw new UsageError(
      `${name} is a base model; this is for models that are trained from one`,
      "anneal models create makes one",
    );
  }
  return matching(data, name);
}

/** The trained ones among all that can be served. */
export function trainedModels(entries: readonly ModelEntry[]): FoundModel[] {
  return entries.flatMap((entry): FoundModel[] => {
    if (entry.model_id === null) return [];
    return [{ id: entry.model_id, name: entry.root.replace(/:step\d+$/, ""), base: entry.parent ?? "" }];
  });
}

function matching(entries: readonly ModelEntry[], name: string, others: readonly string[] = []): FoundModel {
  const trained = trainedModels(entries);
  const wanted = name.replace(/^wandb-artifact:\/\/\/?/, "").replace(stepSuffix, "");
  const matches = trained.filter(
    (model) => model.id === wanted || model.name === wanted || model.name.endsWith(`/${wanted}`),
  );
  if (matches.length === 1) return matches[0]!;
  const names = [...others, ...(matches.length > 0 ? matches : trained).map((model) => model.name)];
  const problem = matches.length > 1 ? `"${name}" may be any of ` : `there is no model "${name}" here; there is `;
  throw new NotFoundError(`${problem}${names.length > 0 ? names.join(", ") : "none that was trained"}`, {
    code: "model_not_found",
    param: "model",
    ...(matches.length > 1 ? {} : { hint: "--home names the home to look in (default ~/.anneal)" }),
  });
}

/**
 * What a request calls the model that a user names: a base model's id, or a trained model as for `findModel`, of the step
 * that is named after it.
 * @throws NotFoundError naming what there is.
 */
export async function servedModel(engine: AnnealClient, name: string): Promise<string> {
  const { data } = await engine.models.list();
  if (data.some(({ id, root }) => id === name || root === name)) return name;
  const bases = data.filter(({ model_id }) => model_id === null).map(({ id }) => id);
  const step = stepSuffix.exec(name)?.[0].replace("@", ":step") ?? "";
  return matching(data, name, bases).name + step;
}

/** Whether a word looks like `PROJECT/NAME` or `ENTITY/PROJECT/NAME`, with a step or without: 3/4 does not. */
export const isModelName = (word: string): boolean =>
  /^(?:wandb-artifact:\/\/\/?)?[\w.-]+(?:\/[\w.-]+){1,2}$/.test(word.replace(stepSuffix, "")) &&
  /[A-Za-z]/.test(word) &&
  !/(?:^|\/)\.{1,2}(?:\/|$)/.test(word);

const isId = (text: string): boolean => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);

/** `PROJECT/NAME` or `ENTITY/PROJECT/NAME`, of a model that may be made. @throws UsageError */
export function readName(text: string): { entity?: string; project: string; name: string } {
  const parts = text.split("/");
  if (parts.some((part) => part === "") || parts.length < 2 || parts.length > 3) {
    const hint = isId(text) ? "that is an id; anneal models list shows the names" : undefined;
    throw new UsageError(`a model is named PROJECT/NAME, not "${text}"`, hint);
  }
  const [name, project, entity] = parts.reverse() as [string, string, string?];
  return { ...(entity !== undefined && { entity }), project, name };
}
