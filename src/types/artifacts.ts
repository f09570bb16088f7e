export interface ArtifactName {
  entity?: string | null;
  project: string;
  name: string;
}

export interface ArtifactCreateParams extends ArtifactName {
  /** File name to content; for training data `trajectories.jsonl` (and `metadata.json`) or `train.jsonl`. */
  files: Record<string, string | Uint8Array>;
}

export interface Artifact {
  /** `wandb-artifact:///entity/project/name:vN` */
  url: string;
}
