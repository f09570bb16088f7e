export {
  type Constraint,
  type ConstraintSetting,
  constraintGrammar,
  type JsonFormat,
  type Thoughts,
} from "./constraint.js";
export { GrammarError } from "./grammarError.js";
export { type Expr, encodeGrammar, type Grammar } from "./ir.js";
export { constraintProgram } from "./program.js";
