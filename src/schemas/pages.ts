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

/** The list envelope around items. */
export const page = <T extends z.ZodType>(item: T) =>
  z.object({
    object: z.literal("list"),
    data: z.array(item),
    has_more: z.boolean(),
    first_id: z.string(),
    last_id: z.string(),
  });
