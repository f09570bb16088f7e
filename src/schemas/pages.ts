import * as z from "zod";
import { byDefault, field, named, shared } from "./fields.js";
import { uuid } from "./names.js";

const after = "Id of the last item already seen; the page begins after it. An unknown one is a NotFoundError.";

const limit = field(byDefault(z.int().min(1).max(100), 20), "Items of the page at most.");

export const pageQuery = named(
  "PageQuery",
  z.object({ after: field(uuid.nullish(), after), limit }),
  "Which part of a list is wanted.",
);

export const orderedPageQuery = named(
  "OrderedPageQuery",
  pageQuery.extend({
    order: field(byDefault(z.enum(["asc", "desc"]), "asc"), "Of checkpoints by step, of jobs by creation."),
  }),
  "Which part of a list is wanted, and in which order.",
);

/** Logged groups are numbered; their ids say so. */
export const loggedGroupId = shared(z.stringFormat("group id", /^group-\d{1,15}$/));

const step = field(z.int().min(0).nullish(), "Only what belongs to this step. Default: all.");

export const trajectoryQuery = named(
  "TrajectoryQuery",
  pageQuery.extend({
    after: field(loggedGroupId.nullish(), after),
    step,
    split: field(z.string().nullish(), 'Only what was logged as this split, such as "val". Default: all.'),
  }),
  "Which of a model's logged trajectory groups are wanted.",
);

/** So are rows of metrics. */
export const metricRowId = shared(z.stringFormat("row id", /^row-\d{1,15}$/));

export const metricQuery = named(
  "MetricQuery",
  pageQuery.extend({ after: field(metricRowId.nullish(), after), step }),
  "Which rows of a model's metrics are wanted.",
);

/** The list envelope around items. */
export const page = <T extends z.ZodType>(item: T) =>
  z.object({
    object: z.literal("list"),
    data: field(z.array(item), "The items."),
    has_more: field(z.boolean(), "Whether there are items after these."),
    first_id: field(z.string(), 'Id of the first item, "" when the page is empty.'),
    last_id: field(z.string(), 'Id of the last item, "" when the page is empty: the `after` of the next page.'),
  });

/** What is answered when there is nothing to say. */
export const nothing = z.object({});
