// Made of src/schemas/health.ts by `npm run generate`: change those.

/** That the engine takes requests; where it does not, `health` rejects. */
export interface HealthReport {
  /** The engine takes requests. */
  status: "ok";
}

/** Fails when folders that the database does not know lie in quarantine; the engine works all the same. */
export interface CheckResult {
  /** Whether it works. */
  success: boolean;
  /** Seconds that the check took. */
  duration: number;
  /** What does not work; empty if all does. */
  errors: string[];
}

/** Whether what requests need works. */
export interface SystemReport {
  /** Requests are answered. */
  api: true;
  /** Fails when folders that the database does not know lie in quarantine; the engine works all the same. */
  database: CheckResult;
  /** Fails when folders that the database does not know lie in quarantine; the engine works all the same. */
  cpu_queue: CheckResult;
  /** Fails when folders that the database does not know lie in quarantine; the engine works all the same. */
  gpu_queue: CheckResult;
  /** Fails when folders that the database does not know lie in quarantine; the engine works all the same. */
  home: CheckResult;
}

export interface Device {
  /** "cpu" */
  id: string;
  name: string;
  /** Those of them that anneal has kernels for, best last: that one is used. */
  instruction_sets: readonly string[];
  /** Compute threads by default. */
  threads: number;
  /** Bytes: that the machine has, and that this process could take now. */
  memory: { total: number; available: number };
}
