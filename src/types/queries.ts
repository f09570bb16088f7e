// Made of src/schemas/pages.ts and jobs.ts by `npm run generate`: change those.

import type { TrainingJobStatus } from "./training.js";

/** Which rows of a model's metrics are wanted. */
export interface MetricQuery {
  /** Id of the last item already seen; the page begins after it. An unknown one is a NotFoundError. */
  after?: string | null;
  /** Items of the page at most. A whole number, 1 to 100. Default: 20. */
  limit?: number | null;
  /** Only what belongs to this step. A whole number, at least 0. Default: all. */
  step?: number | null;
}

/** Which part of a list is wanted, and in which order. */
export interface OrderedPageQuery {
  /** Id of the last item already seen; the page begins after it. An unknown one is a NotFoundError. */
  after?: string | null;
  /** Items of the page at most. A whole number, 1 to 100. Default: 20. */
  limit?: number | null;
  /** Of checkpoints by step, of jobs by creation. Default: "asc". */
  order?: "asc" | "desc" | null;
}

/** Which part of a list is wanted. */
export interface PageQuery {
  /** Id of the last item already seen; the page begins after it. An unknown one is a NotFoundError. */
  after?: string | null;
  /** Items of the page at most. A whole number, 1 to 100. Default: 20. */
  limit?: number | null;
}

/** Which of a model's logged trajectory groups are wanted. */
export interface TrajectoryQuery {
  /** Id of the last item already seen; the page begins after it. An unknown one is a NotFoundError. */
  after?: string | null;
  /** Items of the page at most. A whole number, 1 to 100. Default: 20. */
  limit?: number | null;
  /** Only what belongs to this step. A whole number, at least 0. Default: all. */
  step?: number | null;
  /** Only what was logged as this split, such as "val". Default: all. */
  split?: string | null;
}

/** Which jobs are wanted. */
export interface JobQuery {
  /** Id of the last item already seen; the page begins after it. An unknown one is a NotFoundError. */
  after?: string | null;
  /** Items of the page at most. A whole number, 1 to 100. Default: 20. */
  limit?: number | null;
  /** Of checkpoints by step, of jobs by creation. Default: "asc". */
  order?: "asc" | "desc" | null;
  /** Only jobs of this model. Default: all that the caller may see. */
  model_id?: string | null;
  /** Only jobs that are so far. Default: all. */
  status?: TrainingJobStatus | null;
}
