export interface HealthReport {
  status: "ok";
}

export interface CheckResult {
  success: boolean;
  /** Seconds that the check took. */
  duration: number;
  errors: string[];
}

export interface SystemReport {
  api: true;
  database: CheckResult;
  cpu_queue: CheckResult;
  gpu_queue: CheckResult;
  /** Fails when folders that the database does not know lie in quarantine; the engine works all the same. */
  home: CheckResult;
}
