import { z } from "zod";
import { uuid } from "./names.js";

export const pageQuery = z.object({
  after: uuid.nullish(),
  limit: z
    .int()
    .min(1)
    .max(100)
    .nullish()
    .transform((limit) => limit ?? 20),
});

export const orderedPageQuery = pageQuery.extend({
  order: z
    .enum(["asc", "desc"])
    .nullish()
    .transform((order) => order ?? "asc"),
});

/** Logged groups are numbered; their ids say so. */
export const loggedGroupId = z.stringFormat("group id", /^group-\d{1,15}$/);

export const trajectoryQuery = pageQuery.extend({
  after: loggedGroupId.nullish(),
  step: z.int().min(0).nullish(),
  split: z.string().nullish(),
});

/** So are rows of metrics. */
export const metricRowId = z.stringFormat("row id", /^row-\d{1,15}$/);

export const metricQuery = pageQuery.extend({ after: metricRowId.nullish(), step: z.int().min(0).nullish() });

/** The list envelope around items. */
export const page = <T extends z.ZodType>(item: T) =>
  z.object({
    object: z.literal("list"),
    data: z.array(item),
    has_more: z.boolean(),
    first_id: z.string(),
    last_id: z.string(),
  });
