/** Something in a home that is not as its database says. */
export interface HomeProblem {
  /** Relative to the home. */
  path: string;
  /**
   * `unknown`: the database does not know it, as after a process was killed that had not acknowledged it yet; the next opening moves it to
   * quarantine, or removes it where it is no more than begun.
   */
  kind: "missing" | "damaged" | "unknown";
  /** What is wrong with it. */
  reason: string;
}

/** What a check of a home has found. */
export interface HomeReport {
  /** Its folder. */
  home: string;
  /** What was looked at. */
  models: number;
  /** Checkpoints that were looked at. */
  checkpoints: number;
  /** Versions of artifacts that were looked at. */
  artifacts: number;
  /** Queued and running ones. */
  jobs: number;
  /** Empty: everything is as it should be. */
  problems: HomeProblem[];
  /** What was set aside because the database did not know it. Relative to the home. */
  quarantined: string[];
}

/** A copy of a home. */
export interface HomeBackup {
  /** A home of its own. */
  folder: string;
  /** How many were copied. */
  checkpoints: number;
  /** How many versions were copied. */
  artifacts: number;
  /** Queued and running ones, which go on where the copy is opened. */
  jobs: number;
  /** What could not be copied, or was copied as it is: damaged. Relative to the home. */
  problems: HomeProblem[];
}
