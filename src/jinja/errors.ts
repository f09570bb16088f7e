// What a template does wrong, as its author is told.

/**
 * What went wrong in a chat template:
 * - `syntax`: it is not a template;
 * - `raised`: it called `raise_exception`, and `message` is its text;
 * - `runtime`: a value was used as its type does not allow;
 * - `budget`: it asked for more steps, text or depth than a template may use.
 */
export type TemplateErrorKind = "syntax" | "raised" | "runtime" | "budget";

/** A chat template that cannot be compiled or rendered. */
export class TemplateError extends Error {
  override readonly name = "TemplateError";

  /** `line` counts from 1 in the template's source; undefined where no line is known. */
  constructor(
    readonly kind: TemplateErrorKind,
    readonly reason: string,
    readonly line?: number,
  ) {
    super(kind === "raised" || line === undefined ? reason : `chat template, line ${line}: ${reason}`);
  }
}
