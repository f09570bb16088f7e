// Made of src/schemas/artifacts.ts by `npm run generate`: change those.

/** A version of an artifact, as jobs name their training data. */
export interface Artifact {
  /** `wandb-artifact:///entity/project/name:vN` */
  url: string;
}

/** An artifact's next version. */
export interface ArtifactCreateParams {
  /** Owner of the artifact. Default: the caller's entity. */
  entity?: string | null;
  /** Project that it belongs to. */
  project: string;
  /** Its name; every `create` makes the next version of it. */
  name: string;
  /** File name to content; for training data `trajectories.jsonl` (and `metadata.json`) or `train.jsonl`. */
  files: Record<string, string | Uint8Array>;
}

/** A file of an artifact's next version. */
export interface ArtifactFile {
  /** Length of the file that was stored. */
  bytes: number;
}
