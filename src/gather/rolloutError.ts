import { shareErrors } from "../errorClasses.js";
import { AnnealError } from "../errors.js";

/** More rollouts failed than `maxExceptionShare` and `maxExceptions` allow; `cause` is what the first of them threw. */
export class RolloutError extends AnnealError {
  constructor(failures: number, total: number, cause: unknown) {
    const message = cause instanceof Error ? cause.message : String(cause);
    super(`${failures} of ${total} ${total === 1 ? "rollout" : "rollouts"} failed: ${message}`, 500, {
      code: "rollout_failed",
      param: "rollout",
      hint: "mend the rollout, or let more fail with maxExceptionShare",
      cause,
    });
  }
}

shareErrors({ RolloutError });
