import * as z from "zod";
import { field, named, typed } from "./fields.js";
import { name } from "./names.js";

const location = {
  entity: field(name.nullish(), "Owner of the artifact. Default: the caller's entity."),
  project: field(name, "Project that it belongs to."),
  name: field(name, "Its name; every `create` makes the next version of it."),
};

export const artifactName = z.object({ ...location, entity: name });

/** Files that are being written end in ".part". */
const fileName = name.refine((text) => !text.toLowerCase().endsWith(".part"), 'must not end in ".part"');

export const artifactFile = artifactName.extend({ file: fileName });

const files = z.record(fileName, z.union([z.string(), typed(z.instanceof(Uint8Array), "Uint8Array")]));

export const artifactCreate = named(
  "ArtifactCreateParams",
  z.object({
    ...location,
    files: field(
      files,
      "File name to content; for training data `trajectories.jsonl` (and `metadata.json`) or `train.jsonl`.",
    ),
  }),
  "An artifact's next version.",
);

export const artifact = named(
  "Artifact",
  z.object({ url: field(z.string(), "`wandb-artifact:///entity/project/name:vN`") }),
  "A version of an artifact, as jobs name their training data.",
);

export const artifactFilePut = named(
  "ArtifactFile",
  z.object({ bytes: field(z.int(), "Length of the file that was stored.") }),
  "A file of an artifact's next version.",
);
