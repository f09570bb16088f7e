import { ModelFileError } from "../errors.js";
import { isGguf } from "../gguf/ggufFile.js";
import { DEFAULT_REVISION, hubCacheFolder, hubModelOfPath } from "../hub/hubCache.js";

const WANTED =
  "a GGUF file, or a Hugging Face folder: config.json, tokenizer.json and *.safetensors in float32 or bfloat16";

const GGUF_OF_THE_HUB =
  "a GGUF file of the Hugging Face hub is downloaded with its own command: hf download OWNER/NAME FILE.gguf --local-dir .";

/** The error for a path that is no folder, which says what the user may have meant and can do. */
export function noModelFolder(path: string, isThere: boolean): ModelFileError {
  const hub = hubModelOfPath(path);
  if (isThere && isGguf(path)) return new ModelFileError(path, "is no regular file");
  if (isThere) return new ModelFileError(path, "is a file", { hint: `name the folder that holds it, ${WANTED}` });
  if (isGguf(path)) return new ModelFileError(path, "there is no such file", { hint: GGUF_OF_THE_HUB });
  if (hub === null) return new ModelFileError(path, "there is no such folder", { hint: `name ${WANTED}` });
  const name = hub.revision === DEFAULT_REVISION ? hub.name : `${hub.name}@${hub.revision}`;
  return new ModelFileError(path, `there is no such folder, and no such model in ${hubCacheFolder()}`, {
    hint: `if this is a model of the Hugging Face hub, download it: anneal pull ${name}`,
  });
}
