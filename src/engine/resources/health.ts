import { ClosedError } from "../../errors.js";
import { quarantined } from "../../store/sweep.js";
import type { CheckResult, HealthReport, SystemReport } from "../../types/health.js";
import type { Caller } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import type { MetricFamily } from "../core/metricFamilies.js";

export function health(core: EngineCore): HealthReport {
  if (core.closing.aborted) throw new ClosedError("the engine is closing");
  return { status: "ok" };
}

async function check(probe: () => unknown): Promise<CheckResult> {
  const start = performance.now();
  const errors: string[] = [];
  try {
    await probe();
  } catch (error) {
    errors.push((error as Error).message);
  }
  return { success: errors.length === 0, duration: (performance.now() - start) / 1000, errors };
}

/** Whether what requests need works: the database, and computing (on the processor; no device of another kind is in use). */
export async function systemCheck(core: EngineCore): Promise<SystemReport> {
  return {
    api: true,
    database: await check(() => core.store.check()),
    cpu_queue: await check(() => {
      if (core.closing.aborted) throw new Error("the engine is closing");
      for (const base of core.bases.values()) base.loop.stats();
      const { outOfRoom } = core.runner;
      if (outOfRoom > 0) throw new Error(`training jobs that wait for room on the disk: ${outOfRoom}`);
    }),
    gpu_queue: await check(() => undefined),
    home: await check(() => {
      const { length } = quarantined(core.store.home);
      if (length > 0) throw new Error(`${length} folders that the database does not know are in quarantine`);
    }),
  };
}

/** Everything that is counted about inference, as far as the caller may see it: no names of others' models. */
export function inferenceMetrics({ bases, metrics, options }: EngineCore, { owner, entity }: Caller): MetricFamily[] {
  const maxAdapters = options.maxSequences;
  const models = [...bases.values()].map(({ id, loop, device }) => ({
    id,
    maxAdapters,
    differenceToExact: device.differenceToExact,
    stats: loop.stats(),
  }));
  return metrics.families(models, owner ? null : entity);
}

/** What is counted about training jobs, of all entities: numbers only. */
export function trainingMetrics({ runner }: EngineCore): MetricFamily[] {
  const samples = (label: string, counts: Readonly<Record<string, number>>) =>
    Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }));
  return [
    {
      name: "training_jobs",
      help: "Training jobs that have not ended; out_of_room: those that wait for room on the disk.",
      kind: "gauge",
      samples: samples("state", runner.unfinished),
    },
    {
      name: "training_jobs_ended",
      help: "Training jobs that have ended since the start.",
      kind: "counter",
      samples: samples("status", runner.ended),
    },
  ];
}
