import { NotFoundError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { ModelEntry } from "../types/models.js";

/** A trained model of a home. */
export interface FoundModel {
  id: string;
  /** `entity/project/name` */
  name: string;
  /** Id of its base model. */
  base: string;
}

/**
 * The trained model that a name, `project/name`, `entity/project/name` or an id stands for.
 * @throws NotFoundError naming what there is.
 */
export async function findModel(engine: AnnealClient, name: string): Promise<FoundModel> {
  const { data } = await engine.models.list();
  const trained = data.flatMap((entry: ModelEntry): FoundModel[] => {
    if (entry.model_id === null) return [];
    return [{ id: entry.model_id, name: entry.root.replace(/:step\d+$/, ""), base: entry.parent ?? "" }];
  });
  const wanted = name.replace(/^wandb-artifact:\/\/\/?/, "").replace(/:(step\d+|latest)$/, "");
  const matches = trained.filter(
    (model) => model.id === wanted || model.name === wanted || model.name.endsWith(`/${wanted}`),
  );
  if (matches.length === 1) return matches[0]!;
  const names = (matches.length > 0 ? matches : trained).map((model) => model.name);
  const problem = matches.length > 1 ? `"${name}" may be any of ` : `there is no model "${name}" here; there is `;
  throw new NotFoundError(`${problem}${names.length > 0 ? names.join(", ") : "none that was trained"}`, {
    code: "model_not_found",
    param: "model",
    ...(matches.length > 1 ? {} : { hint: "--home names the home to look in (default ~/.anneal)" }),
  });
}
