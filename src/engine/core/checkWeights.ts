// Whether the weights of base models are those that the home knows.

import { setTimeout as sleep } from "node:timers/promises";
import { ModelFileError } from "../../errors.js";
import type { Store } from "../../store/store.js";
import type { BaseModel } from "./baseModel.js";
import type { ResolvedOptions } from "./options.js";

/**
 * Compares a base model's weights with those that the home first saw under its name. Without `verify` a difference is only
 * logged.
 * @throws ModelFileError with code "weights_changed"
 */
export function checkWeights(
  store: Store,
  base: BaseModel,
  { verify, logger }: Pick<ResolvedOptions, "verify" | "logger">,
): void {
  const { id, hash, stamp, reread } = base;
  const known = store.transaction(() => {
    const wasRead = stamp !== null && reread === null;
    if (wasRead && store.baseWeights.lastRead(id, stamp) !== hash) store.baseWeights.recordReading(id, stamp, hash);
    return store.baseWeights.recordOnce(id, hash);
  });
  if (known === hash) return;
  const { problem, hint } = changed(base);
  if (verify) throw new ModelFileError(base.folder, problem, { code: "weights_changed", hint });
  logger.warn(problem, { folder: base.folder, hint });
}

const changed = ({ id }: BaseModel) => ({
  problem: `these are not the weights that the home knows as "${id}": they were changed, or are damaged`,
  hint: `put the files back, or take the new ones with: anneal home accept ${id}`,
});

/** When the first replies are over, in milliseconds. */
const REREAD_AFTER = 1000;

/** Reads weights at leisure that opening did not read, since their files looked as before: damage in them is logged. */
export function rereadWeights(
  store: Store,
  base: BaseModel,
  logger: ResolvedOptions["logger"],
  signal: AbortSignal,
): void {
  const { reread, hash } = base;
  if (reread === null) return;
  const read = async () => {
    await sleep(REREAD_AFTER, undefined, { signal, ref: false });
    if ((await reread(signal)) === hash) return;
    store.baseWeights.forgetReading(base.id);
    const { problem, hint } = changed(base);
    logger.warn(problem, { folder: base.folder, hint });
  };
  // Who opens them next tells what is wrong with the files.
  read().catch(() => {});
}
