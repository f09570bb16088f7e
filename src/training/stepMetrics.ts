// What a job's optimizer steps have reported, as metrics of its model.

import type { JobRecord } from "../store/records.js";
import type { Store } from "../store/store.js";
import type { StoredRequest } from "./jobRequest.js";
import { means } from "./logMetrics.js";
import { resolveSftSettings } from "./sftRecipe.js";

/** Means over the job's gradient steps of what they reported under `loss/`. */
export function meanLosses(store: Store, jobId: string): Record<string, number> {
  const payloads = gradientSteps(store, jobId);
  const all = means(payloads.map((data) => data as Record<string, number>));
  if (!all.has("loss/train") && all.has("loss")) all.set("loss/train", all.get("loss")!);
  return Object.fromEntries([...all].filter(([name]) => name.startsWith("loss/")));
}

/**
 * What `metric_logging` asks for: every batch under `sft/`, and their means under `train/` at the target step, whose
 * checkpoint shows them if there is one.
 */
export function logBatches(store: Store, job: JobRecord, request: StoredRequest, step: number): void {
  if (request.kind !== "sft") return;
  const { loggingStep } = resolveSftSettings(request.config, step);
  if (loggingStep === null) return;
  const payloads = gradientSteps(store, job.id) as Record<string, number>[];
  const named = (section: string, entries: Iterable<[string, number]>) =>
    Object.fromEntries([...entries].map(([name, value]) => [`${section}/${name}`, value]));
  for (const [i, data] of payloads.entries()) {
    const row = { ...named("sft", Object.entries(data)), "sft/gradient_step": i + 1 };
    store.metrics.append(job.modelId, loggingStep, row);
  }
  const aggregate = named("train", means(payloads));
  store.metrics.append(job.modelId, loggingStep, aggregate);
  if (store.checkpoints.get(job.modelId, loggingStep)) {
    store.checkpoints.mergeMetrics(job.modelId, loggingStep, aggregate);
  }
}

function gradientSteps(store: Store, jobId: string): Record<string, unknown>[] {
  const found: Record<string, unknown>[] = [];
  let after: string | null = null;
  for (;;) {
    const { items, hasMore } = store.events.list(jobId, { after, limit: 1000 });
    for (const event of items) if (event.type === "gradient_step") found.push(event.data);
    if (!hasMore) return found;
    after = items.at(-1)!.id;
  }
}
