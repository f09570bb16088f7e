import type { TrainingEventType, TrainingJobStatus, TrainingRun } from "../types/training.js";

/** Rows as the rest of the library sees them. Times are Unix milliseconds. */
export interface ModelRecord {
  id: string;
  entity: string;
  project: string;
  name: string;
  baseModel: string;
  runId: string;
  /** Settings by objective that go before the engine's; null: none. */
  optimizer: unknown;
  createdAt: number;
}

export interface CheckpointRecord {
  id: string;
  modelId: string;
  step: number;
  /** The job that made it; null for step 0, imports and saved sessions. */
  jobId: string | null;
  metrics: Record<string, number>;
  createdAt: number;
}

export type JobKind = "rl" | "sft";

export interface JobRecord {
  id: string;
  kind: JobKind;
  modelId: string;
  entity: string;
  status: TrainingJobStatus;
  createdAt: number;
  startedAt: number | null;
  endedAt: number | null;
  /** Step of the checkpoint it made. */
  step: number | null;
  error: string | null;
  run: TrainingRun | null;
  /** The runner's own account of where the job goes on; null: nothing done yet. JSON. */
  state: unknown;
}

/** An event as it is written; what `data` holds follows from the type. */
export interface NewEvent {
  type: TrainingEventType;
  data: Record<string, unknown>;
}

export interface EventRecord extends NewEvent {
  id: string;
  jobId: string;
  createdAt: number;
}

export interface KeyRecord {
  id: string;
  prefix: string;
  entity: string;
  name: string | null;
  createdAt: number;
  revokedAt: number | null;
}

export interface ArtifactRecord {
  id: string;
  entity: string;
  project: string;
  name: string;
  version: number;
  createdAt: number;
}

/** A slice of a list; `hasMore` says that items follow it. */
export interface Slice<T> {
  items: T[];
  hasMore: boolean;
}
