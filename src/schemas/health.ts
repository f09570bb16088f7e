import * as z from "zod";
import { field, named } from "./fields.js";

export const healthReport = named(
  "HealthReport",
  z.object({ status: field(z.literal("ok"), "The engine takes requests.") }),
  "That the engine takes requests; where it does not, `health` rejects.",
);

const check = named(
  "CheckResult",
  z.object({
    success: field(z.boolean(), "Whether it works."),
    duration: field(z.number(), "Seconds that the check took."),
    errors: field(z.array(z.string()), "What does not work; empty if all does."),
  }),
  "What a check has found.",
);

export const systemReport = named(
  "SystemReport",
  z.object({
    api: field(z.literal(true), "Requests are answered."),
    database: field(check, "The store can be read and written."),
    cpu_queue: field(check, "The queue of training jobs moves: none of them waits for room on the disk."),
    gpu_queue: field(check, "The models compute."),
    home: field(
      check,
      "Fails when folders that the database does not know lie in quarantine; the engine works all the same.",
    ),
  }),
  "Whether what requests need works.",
);

export const version = z.object({ version: field(z.string(), "Of the package.") });

export const load = z.object({ server_load: field(z.int(), "Sequences that are being computed or wait.") });
