import { z } from "zod";
import { name } from "./names.js";

export const artifactName = z.object({ entity: name, project: name, name });

export const artifactFile = artifactName.extend({ file: name });

export const artifactCreate = z.object({
  entity: name.nullish(),
  project: name,
  name,
  files: z.record(name, z.union([z.string(), z.instanceof(Uint8Array)])),
});

export const artifact = z.object({ url: z.string() });
