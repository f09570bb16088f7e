import * as z from "zod";
import { shared } from "./fields.js";

const pattern = /^[A-Za-z0-9._-]{1,128}$/;

/** The rule of `name`, `project`, `entity` and of an artifact's file names. */
export const isName = (text: string): boolean => pattern.test(text) && text !== "." && text !== "..";

export const name = shared(
  z.string().refine(isName, {
    error: 'must be 1 to 128 characters of A-Z, a-z, 0-9, ".", "_", "-", and not "." or ".."',
  }),
);

/** Identifiers that this engine gives out. */
export const uuid = shared(
  z.string().regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i, "must be a UUID"),
);
