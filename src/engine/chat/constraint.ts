// What the text of a reply must look like, from whichever field of a request says so.

import { ValidationError } from "../../errors.js";
import type { ChatRequest } from "../../schemas/chat.js";

export type Constraint = {
  /** The request's field, for messages. */
  field: string;
  whitespacePattern: string | null;
  disableAnyWhitespace: boolean;
  disableAdditionalProperties: boolean;
} & (
  | { kind: "json_schema"; schema: unknown }
  | { kind: "json_object" }
  | { kind: "regex"; pattern: string }
  | { kind: "choice"; choices: readonly string[] }
  | { kind: "grammar"; source: string }
  | { kind: "structural_tag"; tag: unknown }
);

/** Turns constraints into automata over the tokens of a vocabulary. */
export interface GrammarCompiler {
  /** Throws ValidationError naming what cannot be enforced. */
  compile(constraint: Constraint): unknown;
}

/** The constraint of a request, or null. The schema has seen to it that there is one at most. */
export function constraintOf(request: ChatRequest): Constraint | null {
  const format = request.response_format;
  const plain = { whitespacePattern: null, disableAnyWhitespace: false, disableAdditionalProperties: false };
  if (format !== undefined && format.type !== "text") {
    const field = "response_format";
    if (format.type === "json_object") return { ...plain, field, kind: "json_object" };
    if (format.type === "json_schema") {
      return { ...plain, field, kind: "json_schema", schema: format.json_schema!.schema };
    }
    return { ...plain, field, kind: "structural_tag", tag: format };
  }
  const outputs = request.structured_outputs;
  if (outputs === undefined) return null;
  const shared = {
    field: "structured_outputs",
    whitespacePattern: outputs.whitespace_pattern ?? null,
    disableAnyWhitespace: outputs.disable_any_whitespace ?? false,
    disableAdditionalProperties: outputs.disable_additional_properties ?? false,
  };
  if (outputs.json != null) return { ...shared, kind: "json_schema", schema: outputs.json };
  if (outputs.regex != null) return { ...shared, kind: "regex", pattern: outputs.regex };
  if (outputs.choice != null) return { ...shared, kind: "choice", choices: outputs.choice };
  if (outputs.grammar != null) return { ...shared, kind: "grammar", source: outputs.grammar };
  if (outputs.structural_tag != null) return { ...shared, kind: "structural_tag", tag: outputs.structural_tag };
  return { ...shared, kind: "json_object" };
}

/** Without a grammar engine nothing can be enforced, so the field is refused rather than ignored. */
export function checkConstraint(request: ChatRequest, grammar: GrammarCompiler | null): void {
  const constraint = constraintOf(request);
  if (constraint === null) return;
  if (grammar === null) {
    throw ValidationError.at(constraint.field, "this engine cannot constrain the text of a reply", "not_supported");
  }
  grammar.compile(constraint);
}
