/** How far a download has come. */
export interface PullProgress {
  /** The file that is being downloaded, as the repository names it. */
  file: string;
  /** Bytes of it that are here. */
  bytes: number;
  /** Its size in bytes. */
  size: number;
  /** Bytes of it that an earlier, interrupted download had left. */
  resumed: number;
  /** Bytes of all files to be downloaded that are here. */
  done: number;
  /** Their size in bytes. */
  total: number;
}

/** What is pulled beside what a model needs, and how it is followed. */
export interface PullOptions {
  /** Further files of the repository, as names in which `*` stands for any characters. */
  include?: readonly string[];
  /** The call rejects with `signal.reason`; what has come stays for the next one. */
  signal?: AbortSignal;
  /** Called as bytes come, and waited for. What it throws or rejects with ends the call. */
  onProgress?(progress: PullProgress): void;
}

/** A model of the hub as it lies on this machine. */
export interface PulledModel {
  /** `OWNER/NAME` */
  name: string;
  /** The commit. */
  revision: string;
  /** Its folder in the cache. */
  path: string;
  /** What it needs and what was asked for; none where the network was forbidden. */
  files: PulledFile[];
}

/** A file of a repository of the hub. */
export interface PulledFile {
  /** As the repository names it. */
  path: string;
  /** Its size. */
  bytes: number;
  /** Whether it had to be downloaded. */
  downloaded: boolean;
}
