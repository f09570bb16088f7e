import * as z from "zod";
import { ValidationError, type ValidationIssue } from "../errors.js";
import { MAX_OBJECT_FIELDS, sizeLeft, TooManyFields } from "../valueSize.js";
import { MAX_ISSUES } from "./limited.js";

export interface ValidateOptions {
  /** An unknown field of the outermost object, or of its settings, is an error that names it. The wire ignores unknown fields; calls in process do not. */
  strict?: boolean;
  /** Where the value came from: the first part of every `loc`. */
  from?: "body" | "query" | "path" | "options";
}

const strictForms = new WeakMap<z.ZodObject, z.ZodObject>();
const settings = new WeakSet<z.ZodType>();

/** Marks an object of settings: where unknown fields are errors, those of the settings within are too. */
export function settingsObject<S extends z.ZodRawShape>(shape: S): z.ZodObject<S> {
  const schema = z.object(shape);
  settings.add(schema);
  return schema;
}

function strictForm(schema: z.ZodObject): z.ZodObject {
  let strict = strictForms.get(schema);
  if (!strict) {
    const nested: Record<string, z.ZodType> = {};
    for (const [name, field] of Object.entries(schema.shape as Record<string, z.ZodType>)) {
      const inner = unwrapped(field);
      if (inner instanceof z.ZodObject && settings.has(inner)) nested[name] = strictForm(inner).nullish();
    }
    strict = schema.extend(nested).strict();
    strictForms.set(schema, strict);
  }
  return strict;
}

function unwrapped(schema: z.ZodType): z.ZodType {
  let inner = schema;
  while (inner instanceof z.ZodOptional || inner instanceof z.ZodNullable) inner = inner.unwrap() as z.ZodType;
  return inner;
}

type Issue = z.core.$ZodIssue;

type Branches = readonly (readonly Issue[])[];

/**
 * Of a union's branches, the one that was meant: the one that got deepest into the value, least of all where it is of another
 * kind altogether, then with the least to complain about.
 */
function closestBranch(branches: Branches): readonly Issue[] {
  // What is expected to be an "int" is a number.
  const isOtherKind = (issue: Issue) =>
    issue.code === "invalid_type" && issue.path.length === 0 && issue.expected !== "int";
  const depth = (issues: readonly Issue[]) =>
    issues.some(isOtherKind) ? -1 : issues.reduce((most, issue) => Math.max(most, issue.path.length), 0);
  return [...branches].sort((a, b) => depth(b) - depth(a) || a.length - b.length)[0] ?? [];
}

/** Whether one of the branches is a choice of literals, and none is about what is inside the value. */
function isLiteralOrOther(branches: Branches): boolean {
  const issues = branches.flat();
  return issues.some(({ code }) => code === "invalid_value") && issues.every(({ path }) => path.length === 0);
}

/** What each branch expects, that of the one which was meant first. */
function expectations(branches: Branches): string {
  const first = closestBranch(branches);
  const all = [first, ...branches.filter((branch) => branch !== first)];
  const [message, ...others] = new Set(all.flatMap((branch) => branch.slice(0, 1).map((issue) => describe(issue).msg)));
  return [message, ...others.map((other) => other.replace(/^Invalid \w+: /, ""))].join("; or ");
}

/** As Pydantic names the rule that a bound breaks. */
function boundType({ code, origin, inclusive }: z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig): string {
  const end = code === "too_small" ? "short" : "long";
  if (origin === "string") return `string_too_${end}`;
  if (origin === "array" || origin === "map") return `too_${end}`;
  const side = code === "too_small" ? "greater_than" : "less_than";
  return inclusive === false ? side : `${side}_equal`;
}

function describe(issue: Issue): { msg: string; type: string } {
  if (issue.code === "invalid_type") {
    if (issue.message.endsWith("received undefined")) return { msg: "field required", type: "missing" };
    return { msg: issue.message, type: `${issue.expected}_type` };
  }
  if (issue.code === "unrecognized_keys") return { msg: "unknown field", type: "extra_forbidden" };
  if (issue.code === "too_small" || issue.code === "too_big") return { msg: issue.message, type: boundType(issue) };
  if (issue.code === "invalid_value") return { msg: issue.message, type: "literal_error" };
  if (issue.code === "invalid_format") return { msg: issue.message, type: `${issue.format}_parsing` };
  return { msg: issue.message, type: "value_error" };
}

function* toIssues(issues: readonly Issue[], prefix: readonly string[]): Generator<ValidationIssue> {
  for (const issue of issues) {
    const loc = [...prefix, ...issue.path.map(String)];
    if (issue.code === "invalid_union" && issue.errors.length > 0) {
      const [closest] = closestBranch(issue.errors);
      if (closest && isLiteralOrOther(issue.errors)) {
        yield { loc, ...describe(closest), msg: expectations(issue.errors) };
      } else yield* toIssues(closestBranch(issue.errors), loc);
    } else if (issue.code === "unrecognized_keys") {
      for (const key of issue.keys) yield { loc: [...loc, key], ...describe(issue) };
    } else {
      yield { loc, ...describe(issue) };
    }
  }
}

function listed(issues: readonly Issue[], from: string): ValidationIssue[] {
  const list: ValidationIssue[] = [];
  for (const issue of toIssues(issues, [from])) {
    if (list.length < MAX_ISSUES) list.push(issue);
    else {
      list.push({
        loc: [from],
        msg: `there are more: only the first ${MAX_ISSUES} are listed`,
        type: "too_many_issues",
      });
      break;
    }
  }
  return list;
}

function outcome<S extends z.ZodType>(result: z.ZodSafeParseResult<unknown>, from: string): z.output<S> {
  if (result.success) return result.data as z.output<S>;
  throw new ValidationError(listed(result.error.issues, from));
}

/** How often a schema is used before zod makes code for it, which takes as long as hundreds of uses. */
const USES_BEFORE_CODE = 8;
const uses = new WeakMap<z.ZodType, number>();

function parsing(form: z.ZodType): { jitless: boolean } {
  const before = uses.get(form) ?? 0;
  if (before < USES_BEFORE_CODE) uses.set(form, before + 1);
  return { jitless: before < USES_BEFORE_CODE };
}

/**
 * Checks a value against a schema and returns it typed, with defaults filled in.
 * @throws ValidationError with one issue per violation, up to MAX_ISSUES.
 */
export function validate<S extends z.ZodType>(schema: S, value: unknown, options: ValidateOptions = {}): z.output<S> {
  const { form, from } = formOf(schema, value, options);
  return outcome<S>(form.safeParse(value, parsing(form)), from);
}

/** Values inside one that is checked at once: a matter of a few milliseconds. */
const AT_ONCE = 10_000;

/** The same for values that may be large: between the elements of their lists, other work of the thread has its turn. */
export async function validateAsync<S extends z.ZodType>(
  schema: S,
  value: unknown,
  options: ValidateOptions = {},
): Promise<z.output<S>> {
  if (isSmall(value, options.from ?? "body")) return validate(schema, value, options);
  const { form, from } = formOf(schema, value, options);
  return outcome<S>(await form.safeParseAsync(value), from);
}

/** @throws ValidationError for an object of so many fields that the check would list them at length */
function isSmall(value: unknown, from: string): boolean {
  try {
    return sizeLeft(value, AT_ONCE, MAX_OBJECT_FIELDS) >= 0;
  } catch (error) {
    if (error instanceof TooManyFields) {
      const msg = `Too big: expected at most ${MAX_OBJECT_FIELDS} entries`;
      throw new ValidationError([{ loc: [from, ...error.path], msg, type: "too_long" }]);
    }
    // Nested deeper than the stack allows, which the check says without going there.
    return true;
  }
}

function formOf(
  schema: z.ZodType,
  value: unknown,
  { strict, from = "body" }: ValidateOptions,
): { form: z.ZodType; from: string } {
  if (!strict || !(schema instanceof z.ZodObject)) return { form: schema, from };
  checkFields(schema, value, from);
  return { form: strictForm(schema), from };
}

/** Objects whose content is not in fields: to a schema they are empty, and so would be settings that nobody awaited. */
const FIELDLESS = [Map, Set, Promise];

/** @throws ValidationError for a value, or one of its fields, that is such an object */
function checkFields({ shape }: z.ZodObject, value: unknown, from: string): void {
  if (typeof value !== "object" || value === null) return;
  const check = (one: unknown, loc: string[]) => {
    const kind = FIELDLESS.find((type) => one instanceof type);
    if (kind === undefined) return;
    const msg = `Invalid input: expected object, received ${kind.name}`;
    throw new ValidationError([{ loc, msg, type: "object_type" }]);
  };
  check(value, [from]);
  for (const name of Object.keys(shape)) check((value as Record<string, unknown>)[name], [from, name]);
}
