import { join } from "node:path";
import { isGguf } from "../gguf/ggufFile.js";
import { readGgufConfig } from "./ggufWeights.js";
import { JsonFields } from "./jsonFields.js";

/** config.json of a folder, or what it would be for a GGUF file. @throws ModelFileError */
export async function readModelConfig(path: string): Promise<JsonFields> {
  return isGguf(path) ? readGgufConfig(path) : JsonFields.read(join(path, "config.json"));
}
