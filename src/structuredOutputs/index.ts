// What engines need of constraints on replies.

export { GrammarError } from "../grammar/grammarError.js";
export { type Expr, encodeGrammar, type Grammar } from "../grammar/ir.js";
export {
  type Constraint,
  type ConstraintSetting,
  constraintGrammar,
  type JsonFormat,
  type PlainConstraint,
  type SingleConstraint,
  type Thoughts,
} from "./constraint.js";
export { constraintText } from "./constraintText.js";
export { constraintProgram } from "./program.js";
