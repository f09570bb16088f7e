// What the text of a reply must look like, from whichever field of a request says so.

import { AnnealError, ValidationError } from "../../errors.js";
import { GrammarError } from "../../grammar/grammarError.js";
import type { CompiledGrammar, GrammarRequest } from "../../runtime/runtime.js";
import type { ChatRequest } from "../../schemas/chat.js";
import type {
  Constraint,
  JsonFormat,
  PlainConstraint,
  SingleConstraint,
  Thoughts,
} from "../../structuredOutputs/index.js";
import type { BaseModel } from "../core/baseModel.js";
import type { GrammarCompiler } from "../core/grammarCache.js";

export interface RequestConstraint<C extends Constraint = Constraint> {
  constraint: C;
  /** The request's field, for messages. */
  field: "response_format" | "structured_outputs" | "tools";
  /** Where in the request a place of the constraint is. */
  locate(path: readonly string[]): string[];
}

const PLAIN: JsonFormat = {
  whitespacePattern: null,
  disableAnyWhitespace: false,
  disableAdditionalProperties: false,
  anyOrder: false,
};

/** The constraint of a request, or null. The schema has seen to it that there is one at most. */
export function constraintOf(request: ChatRequest): RequestConstraint<PlainConstraint> | null {
  return fromResponseFormat(request.response_format) ?? fromStructuredOutputs(request.structured_outputs);
}

/** The JSON that the text of a reply must be, or null. */
export function jsonFormOf({ response_format: format }: ChatRequest): RequestConstraint<SingleConstraint> | null {
  return format?.type === "structural_tag" ? null : fromResponseFormat(format);
}

/** The same behind one of `heads`, where there are any. */
export function behind<C extends PlainConstraint>(
  heads: readonly string[] | undefined,
  wanted: RequestConstraint<C>,
): RequestConstraint<C | SingleConstraint> {
  if (heads === undefined || heads.length === 0) return wanted;
  return { ...wanted, constraint: { kind: "headed", heads, of: wanted.constraint } };
}

/** What a reply must be that is calls, or has the form instead. */
export function callsOrForm(
  calls: RequestConstraint<SingleConstraint>,
  form: RequestConstraint<SingleConstraint>,
): RequestConstraint {
  return {
    field: form.field,
    constraint: { kind: "either", of: [calls.constraint, form.constraint] },
    locate: ([which, ...path]) => (which === "0" ? calls : form).locate(path),
  };
}

function fromResponseFormat(format: ChatRequest["response_format"]): RequestConstraint<SingleConstraint> | null {
  const field = "response_format";
  switch (format?.type) {
    case "json_object":
      return { field, constraint: { kind: "json_object", format: PLAIN }, locate: () => [field] };
    case "json_schema": {
      const { schema, strict } = format.json_schema!;
      const json: JsonFormat = { ...PLAIN, disableAdditionalProperties: strict === true };
      const constraint = { kind: "json_schema", schema, format: json } as const;
      return { field, constraint, locate: (path) => [field, "json_schema", "schema", ...path] };
    }
    case "structural_tag":
      return {
        field,
        constraint: { kind: "structural_tag", tag: format, format: PLAIN },
        locate: (path) => [field, ...path],
      };
    default:
      return null;
  }
}

function fromStructuredOutputs(outputs: ChatRequest["structured_outputs"]): RequestConstraint<PlainConstraint> | null {
  if (outputs === undefined) return null;
  const format: JsonFormat = {
    whitespacePattern: outputs.whitespace_pattern ?? null,
    disableAnyWhitespace: outputs.disable_any_whitespace ?? false,
    disableAdditionalProperties: outputs.disable_additional_properties ?? false,
    anyOrder: outputs.any_order ?? false,
  };
  const field = "structured_outputs";
  const from = (key: string, constraint: PlainConstraint): RequestConstraint<PlainConstraint> => ({
    field,
    constraint,
    locate: (path) => (path[0] === "whitespace_pattern" ? [field, ...path] : [field, key, ...path]),
  });
  if (outputs.json != null) return from("json", { kind: "json_schema", schema: outputs.json, format });
  if (outputs.regex != null) return from("regex", { kind: "regex", pattern: outputs.regex });
  if (outputs.choice != null) return from("choice", { kind: "choice", choices: outputs.choice });
  if (outputs.grammar != null) return from("grammar", { kind: "grammar", source: outputs.grammar });
  if (outputs.structural_tag != null) {
    return from("structural_tag", { kind: "structural_tag", tag: outputs.structural_tag, format });
  }
  return from("json_object", { kind: "json_object", format });
}

/**
 * The automaton of a constraint.
 * @throws ValidationError naming what cannot be enforced, and where in the request it is.
 */
export async function compileConstraint(
  compiler: GrammarCompiler,
  base: BaseModel,
  wanted: RequestConstraint,
  thoughts: Thoughts | null,
  request: GrammarRequest,
): Promise<CompiledGrammar> {
  try {
    return await compiler.compile(base, wanted.constraint, thoughts, request);
  } catch (error) {
    const refuse = (path: readonly string[], msg: string, type: string) =>
      new ValidationError([{ loc: ["body", ...wanted.locate(path)], msg, type }], { cause: error });
    if (error instanceof GrammarError) throw refuse(error.path, error.message, "value_error");
    if (error instanceof AnnealError && NATIVE_REFUSALS.has(error.code)) throw refuse([], error.message, error.code);
    throw error;
  }
}

const NATIVE_REFUSALS: ReadonlySet<string> = new Set([
  "grammar_too_complex",
  "grammar_left_recursive",
  "grammar_empty",
  "invalid_grammar",
]);
