import { z } from "zod";
import { name } from "./names.js";

export const artifactName = z.object({ entity: name, project: name, name });

/** Files that are being written end in ".part". */
const fileName = name.refine((text) => !text.toLowerCase().endsWith(".part"), 'must not end in ".part"');

export const artifactFile = artifactName.extend({ file: fileName });

export const artifactCreate = z.object({
  entity: name.nullish(),
  project: name,
  name,
  files: z.record(fileName, z.union([z.string(), z.instanceof(Uint8Array)])),
});

export const artifact = z.object({ url: z.string() });
