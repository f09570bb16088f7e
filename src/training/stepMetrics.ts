// What a job's optimizer steps have reported, as metrics of its model.

import type { JobRecord } from "../store/records.js";
import type { Store } from "../store/store.js";
import type { StoredRequest } from "./jobRequest.js";
import { means } from "./logMetrics.js";
import { resolveSftSettings } from "./sftRecipe.js";

/** What an optimizer step has reported. */
export type StepReport = Record<string, number>;

/** Means over a job's gradient steps of what they reported under `loss/`. */
export function meanLosses(steps: readonly StepReport[]): Record<string, number> {
  const all = means(steps);
  if (!all.has("loss/train") && all.has("loss")) all.set("loss/train", all.get("loss")!);
  return Object.fromEntries([...all].filter(([name]) => name.startsWith("loss/")));
}

/**
 * What `metric_logging` asks for: every batch under `sft/`, and their means under `train/` at the target step, whose
 * checkpoint shows them if there is one.
 */
export function logBatches(
  store: Store,
  job: JobRecord,
  request: StoredRequest,
  step: number,
  steps: readonly StepReport[],
): void {
  if (request.kind !== "sft") return;
  const { loggingStep } = resolveSftSettings(request.config, step);
  if (loggingStep === null) return;
  const named = (section: string, entries: Iterable<[string, number]>) =>
    Object.fromEntries([...entries].map(([name, value]) => [`${section}/${name}`, value]));
  for (const [i, data] of steps.entries()) {
    const row = { ...named("sft", Object.entries(data)), "sft/gradient_step": i + 1 };
    store.metrics.append(job.modelId, loggingStep, row);
  }
  const aggregate = named("train", means(steps));
  store.metrics.append(job.modelId, loggingStep, aggregate);
  if (store.checkpoints.get(job.modelId, loggingStep)) {
    store.checkpoints.mergeMetrics(job.modelId, loggingStep, aggregate);
  }
}

/** The reports of a job's gradient steps, in their order. */
export function gradientSteps(store: Store, jobId: string): StepReport[] {
  const found: StepReport[] = [];
  let after: string | null = null;
  for (;;) {
    const { items, hasMore } = store.events.list(jobId, { after, limit: 1000 });
    for (const event of items) if (event.type === "gradient_step") found.push(event.data as StepReport);
    if (!hasMore) return found;
    after = items.at(-1)!.id;
  }
}
