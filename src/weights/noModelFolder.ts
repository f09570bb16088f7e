import { basename, relative, sep } from "node:path";
import { ModelFileError } from "../errors.js";

const WANTED = "a Hugging Face folder: config.json, tokenizer.json and *.safetensors in float32 or bfloat16";

/** The error for a path that is no folder, which says what the user may have meant and can do. */
export function noModelFolder(path: string, isThere: boolean): ModelFileError {
  const hub = hubName(path);
  if (isThere && /\.gguf$/i.test(path)) {
    return new ModelFileError(path, "is a GGUF file, which anneal does not read", {
      hint: `name the model that it was made from, ${WANTED}`,
    });
  }
  if (isThere) return new ModelFileError(path, "is a file", { hint: `name the folder that holds it, ${WANTED}` });
  const hint = hub
    ? `anneal downloads nothing. If this is a model of the Hugging Face hub: hf download ${hub} --local-dir ${basename(hub)}, then name ./${basename(hub)}`
    : `name ${WANTED}`;
  return new ModelFileError(path, "there is no such folder", { hint });
}

/** OWNER/NAME, where the path may be one that was taken for a folder of this place. */
function hubName(path: string): string | null {
  const parts = relative(process.cwd(), path).split(sep);
  return parts.length === 2 && parts.every((part) => /^[A-Za-z0-9][\w.-]*$/.test(part)) ? parts.join("/") : null;
}
