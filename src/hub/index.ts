// Models of the hub; what does the work is loaded by the first call.

import type { PulledModel, PullOptions } from "../types/hub.js";

/**
 * Downloads what a model needs from the Hugging Face hub into the cache that the hub's other programs use, or finds it there.
 * An interrupted download is gone on with; every file is checked by size and hash. The environment counts as with those
 * programs: HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE.
 * @throws ValidationError for a text that is no `OWNER/NAME` or `OWNER/NAME@REVISION`; NotFoundError; AuthenticationError;
 * UnavailableError when the hub cannot be reached; ModelFileError with code "hub_file_damaged"; DiskFullError.
 */
export async function pullModel(name: string, options: PullOptions = {}): Promise<PulledModel> {
  const loaded = await import("./pullModel.js");
  return loaded.pullModel(name, options);
}
