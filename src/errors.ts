import { basename } from "node:path";
import { shareErrors } from "./errorClasses.js";

/** What an error says beside its message. */
export interface ErrorDetail {
  /** Stable machine-readable name, for example "invalid_request", "model_not_found". */
  code: string;
  /** The field, option or file at fault. */
  param?: string | null;
  /** What to do about it. */
  hint?: string;
  /** The error that it comes from. */
  cause?: unknown;
}

/**
 * Everything that goes wrong on purpose: one base class, a subclass per wire status, and a stable `code` to match on.
 * Every message names the field or file at fault; `hint` says what to do. An aborted call rejects with `signal.reason`.
 */
export class AnnealError extends Error {
  /** Stable machine-readable name, for example "invalid_request", "model_not_found". */
  readonly code: string;
  /** The field, option or file at fault. */
  readonly param: string | null;
  /** The HTTP status the wire would carry. */
  readonly status: number;
  /** What to do about it. */
  readonly hint: string | undefined;

  constructor(message: string, status: number, detail: ErrorDetail) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.name = new.target.name;
    this.status = status;
    this.code = detail.code;
    this.param = detail.param ?? null;
    this.hint = detail.hint;
  }
}

/** One violation of a request's shape or meaning; `loc` holds strings, array positions as decimal strings. */
export interface ValidationIssue {
  /** Where: "body", "query", "path" or "options", then field names and positions. */
  loc: string[];
  /** What is wrong there. */
  msg: string;
  /** Which rule is broken, as Pydantic names them. */
  type: string;
}

const TOO_LONG = "context_length_exceeded";

/** 422: the request cannot be accepted as it is. */
export class ValidationError extends AnnealError {
  /**
   * Bundlers give a class that speaks of itself another name.
   * @internal
   */
  static override readonly name: string = "ValidationError";
  /** Everything that is wrong, 16 entries at most. */
  readonly issues: readonly ValidationIssue[];

  constructor(issues: readonly ValidationIssue[], detail: Partial<ErrorDetail> = {}) {
    const first = issues[0];
    const path = first?.loc.filter((part, i) => i > 0 || part !== "body").join(".") ?? "";
    super(issues.map((issue) => `${issue.loc.join(".")}: ${issue.msg}`).join("; "), 422, {
      code: "invalid_request",
      param: path || null,
      ...detail,
    });
    this.issues = issues;
  }

  /** A single problem with a body field, given as "a.0.b". */
  static at(path: string, msg: string, type = "value_error", detail: Partial<ErrorDetail> = {}): ValidationError {
    return new ValidationError([{ loc: ["body", ...path.split(".")], msg, type }], detail);
  }

  /**
   * A text that the model's context has no room for. Its code is OpenAI's, which clients match on.
   * @internal
   */
  static tooLong(path: string, msg: string, detail: Partial<ErrorDetail> = {}): ValidationError {
    return ValidationError.at(path, msg, TOO_LONG, { code: TOO_LONG, ...detail });
  }

  /** @internal */
  get isTooLong(): boolean {
    return this.code === TOO_LONG;
  }
}

function statusClass(status: number, defaultCode: string) {
  return class extends AnnealError {
    constructor(message: string, detail: Partial<ErrorDetail> = {}) {
      super(message, status, { code: defaultCode, ...detail });
    }
  };
}

/** 400: not understandable at all (malformed JSON, wrong content type, wrong native argument). */
export class BadRequestError extends statusClass(400, "bad_request") {}

/** 401: no API key, or one that is not valid. */
export class AuthenticationError extends statusClass(401, "invalid_api_key") {}

/** 403: the key is valid, but what was asked for is not for its bearer. */
export class PermissionDeniedError extends statusClass(403, "permission_denied") {}

/** 404: there is no such model, checkpoint, job, artifact or address. */
export class NotFoundError extends statusClass(404, "not_found") {}

/** 409: the name is taken, or the state of things does not allow it. */
export class ConflictError extends statusClass(409, "conflict") {}

/** 413: the body is longer than the server takes. */
export class PayloadTooLargeError extends statusClass(413, "payload_too_large") {}

/** 429: as many requests wait as may wait; try again later. */
export class RateLimitError extends statusClass(429, "queue_full") {}

/** 500: a defect, or a device that failed. */
export class InternalServerError extends statusClass(500, "internal_error") {}

/** 503: it cannot be done now: the engine has been closed, or something that it needs is missing. */
export class UnavailableError extends statusClass(503, "unavailable") {}

/** Used after it was closed, or in the middle of its work when it was: code "closed", whatever it was. */
export class ClosedError extends UnavailableError {
  constructor(message: string) {
    super(message, { code: "closed" });
  }
}

const UNITS = ["bytes", "KiB", "MiB", "GiB"];

/** Bytes as people read them: "1.50 GiB". */
function readable(bytes: number): string {
  const unit = bytes < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${unit === 0 ? bytes : (bytes / 1024 ** unit).toFixed(2)} ${UNITS[unit]}`;
}

/** Of options that are not simply lowered. */
const MEMORY_HINTS: Record<string, string> = {
  adapter: "train an adapter of a lower rank or of fewer modules, or raise memoryLimit",
  memoryBudget: "train shorter rows, lower maxTrainingJobs, or raise memoryLimit",
  model: "train an adapter, or a smaller model",
  models: "serve a smaller model, raise memoryLimit, or leave a GPU's first layers to the cpu with gpuLayers",
  device: "serve a smaller model, fewer sequences or shorter contexts, or leave layers to the cpu with gpuLayers",
};

/** Raised before memory is taken: what for, what was needed, what is there and missing, which option to lower. Sizes in bytes. */
export class InsufficientMemoryError extends UnavailableError {
  /** In bytes. */
  readonly needed: number;
  /** In bytes. */
  readonly available: number;

  /** @param what  needs it: "the model's weights" */
  constructor(what: string, needed: number, available: number, option: string) {
    const missing = readable(needed - available);
    super(`${what}: ${readable(needed)} of memory needed, ${readable(available)} available, ${missing} missing`, {
      code: "insufficient_memory",
      param: option,
      hint: MEMORY_HINTS[option] ?? `lower ${option}`,
    });
    this.needed = needed;
    this.available = available;
  }
}

/** Nothing more can be written: what was under way has not happened. Jobs that it kept from ending end once there is room. */
export class DiskFullError extends UnavailableError {
  constructor(cause: unknown) {
    super("the disk is full", { code: "disk_full", hint: "free some of it, or put the home on another", cause });
  }
}

/** 502: a server of another engine that this one depends on refused, could not be reached, or does not agree with it. */
export class RemoteServerError extends statusClass(502, "remote_refused") {
  /** The status that it answered with; null: it gave no such answer. */
  readonly remoteStatus: number | null;

  constructor(
    message: string,
    { remoteStatus = null, ...detail }: Partial<ErrorDetail> & { remoteStatus?: number | null },
  ) {
    super(message, detail);
    this.remoteStatus = remoteStatus;
  }
}

/** Another process, or another thread of this one, has the home folder open. */
export class HomeLockedError extends ConflictError {
  /** The process that has it open. */
  readonly pid: number;
  /** Where that process can be reached over HTTP; null: nowhere. */
  readonly address: string | null;

  constructor(home: string, pid: number, address: string | null, isThisProcess = false) {
    const holder = isThisProcess ? "another engine of this process" : `process ${pid}`;
    const ending = isThisProcess ? "close that engine, in whichever thread it was opened" : "end that process";
    super(`${home} is in use by ${holder}${address ? `, which serves ${address}` : ""}`, {
      code: "home_locked",
      param: "home",
      hint: address ? `connect to it with Engine.connect("${address}")` : `${ending}, or name another home`,
    });
    this.pid = pid;
    this.address = address;
  }
}

/** A model folder, adapter or data file that cannot be used: names the file, and the field in it. */
export class ModelFileError extends AnnealError {
  /** Its path. */
  readonly file: string;
  /** The message without the file. */
  readonly reason: string;

  constructor(file: string, reason: string, detail: Partial<ErrorDetail> = {}) {
    super(`${file}: ${reason}`, 422, { code: "unusable_model_file", param: file, ...detail });
    this.file = file;
    this.reason = reason;
  }
}

/**
 * An error as others than the owner may see it: of a file that cannot be used they are told the name, not where it lies or
 * what is in it.
 */
export function errorForOthers(error: unknown): unknown {
  const hint = "the log of the engine says why";
  if (error instanceof ModelFileError) {
    return new ModelFileError(basename(error.file), "cannot be used", { code: error.code, hint });
  }
  if (!(error instanceof UnavailableError && error.code === "file_unusable")) return error;
  return new UnavailableError("a file cannot be used", { code: error.code, hint });
}

/** A message of the operating system without the path that it ends in; other messages as they are. */
export function systemReason({ message, code }: NodeJS.ErrnoException): string {
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? message.replace(/, \w+ '.*$/s, "") : message;
}

/** What waiting for a training job rejects with when the job did not succeed. */
export class TrainingFailedError extends InternalServerError {
  /** The job; its last event says more. */
  readonly jobId: string;

  constructor(jobId: string, message: string, cancelled: boolean) {
    super(`training job ${jobId}: ${message}`, { code: cancelled ? "training_cancelled" : "training_failed" });
    this.jobId = jobId;
  }
}

shareErrors({
  AnnealError,
  AuthenticationError,
  BadRequestError,
  ClosedError,
  ConflictError,
  DiskFullError,
  HomeLockedError,
  InsufficientMemoryError,
  InternalServerError,
  ModelFileError,
  NotFoundError,
  PayloadTooLargeError,
  PermissionDeniedError,
  RateLimitError,
  RemoteServerError,
  TrainingFailedError,
  UnavailableError,
  ValidationError,
});
