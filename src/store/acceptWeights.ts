import { NotFoundError } from "../errors.js";
import { isHome } from "./homeFolder.js";

/**
 * Forgets what the weights of a base model were when the home first saw them: those of the next opening are what later ones
 * are compared with (see the option `verify`).
 * @throws NotFoundError when there is no home, or it knows no such model; HomeLockedError when it is open elsewhere.
 */
export async function acceptWeights(home: string, baseModel: string): Promise<void> {
  const missing = (what: string) => new NotFoundError(what, { param: "model" });
  if (!isHome(home)) throw missing(`there is no home at ${home}`);
  const { openStore } = await import("./store.js");
  const store = openStore(home);
  try {
    if (!store.baseWeights.forget(baseModel)) throw missing(`the home knows no base model "${baseModel}"`);
  } finally {
    store.close();
  }
}
