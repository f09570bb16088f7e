// Made of src/schemas/health.ts by `npm run generate`: change those.

/** That the engine takes requests; where it does not, `health` rejects. */
export interface HealthReport {
  /** The engine takes requests. */
  status: "ok";
}

/** What a check has found. */
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
  /** The store can be read and written. */
  database: CheckResult;
  /** The queue of training jobs moves: none of them waits for room on the disk. */
  cpu_queue: CheckResult;
  /** The models compute. */
  gpu_queue: CheckResult;
  /** Fails when folders that the database does not know lie in quarantine; the engine works all the same. */
  home: CheckResult;
}
