import { ModelFileError } from "../../errors.js";
import type { Store } from "../../store/store.js";
import type { Logger } from "../../types/logger.js";
import type { BaseModel } from "./baseModel.js";

/**
 * Compares a base model's weights with those that the home first saw under its name. Without `verify` a difference is only
 * logged.
 * @throws ModelFileError with code "weights_changed"
 */
export function checkWeights(
  store: Store,
  base: BaseModel,
  { verify, logger }: { verify: boolean; logger: Logger },
): void {
  if (store.baseWeights.recordOnce(base.id, base.hash) === base.hash) return;
  const problem = `these are not the weights that the home knows as "${base.id}": they were changed, or are damaged`;
  const hint = `put the files back, or take the new ones with: anneal home accept ${base.id}`;
  if (verify) throw new ModelFileError(base.folder, problem, { code: "weights_changed", hint });
  logger.warn(problem, { folder: base.folder, hint });
}
