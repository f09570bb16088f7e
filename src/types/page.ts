import type { TrainingJobStatus } from "./training.js";

/** One page of a list, as on the wire. Iterating over it walks this page's items and then those of all later pages. */
export interface Page<T> extends AsyncIterable<T> {
  object: "list";
  data: T[];
  has_more: boolean;
  /** Id of the first item, "" when the page is empty. */
  first_id: string;
  /** Id of the last item, "" when the page is empty: the `after` of the next page. */
  last_id: string;
}

export interface PageQuery {
  /** Id of the last item already seen; the page starts after it. */
  after?: string | null;
  /** 1 to 100, default 20. */
  limit?: number | null;
}

export interface TrajectoryQuery extends PageQuery {
  /** Default: all. */
  step?: number | null;
  split?: string | null;
}

export interface JobQuery extends PageQuery {
  /** Default: all that the caller may see. */
  model_id?: string | null;
  status?: TrainingJobStatus | null;
  /** By creation; default "asc". */
  order?: "asc" | "desc" | null;
}

export interface MetricQuery extends PageQuery {
  /** Default: all. */
  step?: number | null;
}

export interface OrderedPageQuery extends PageQuery {
  /** By step; default "asc". */
  order?: "asc" | "desc" | null;
}
