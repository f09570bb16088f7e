/** Something in a home that is not as its database says. */
export interface HomeProblem {
  /** Relative to the home. */
  path: string;
  /** `unknown`: the database does not know it; the next opening moves it to quarantine. */
  kind: "missing" | "damaged" | "unknown";
  reason: string;
}

export interface HomeReport {
  home: string;
  /** What was looked at. */
  models: number;
  checkpoints: number;
  artifacts: number;
  /** Queued and running ones. */
  jobs: number;
  /** Empty: everything is as it should be. */
  problems: HomeProblem[];
  /** What was set aside because the database did not know it. Relative to the home. */
  quarantined: string[];
}

export interface HomeBackup {
  /** A home of its own. */
  folder: string;
  checkpoints: number;
  artifacts: number;
  jobs: number;
  /** What could not be copied, or was copied as it is: damaged. Relative to the home. */
  problems: HomeProblem[];
}
