// The shape of a parsed chat template.

export interface Argument {
  name: string;
  value: Expression;
}

/** What stands between the parentheses of a call, a filter or a test. */
export interface CallArguments {
  positional: Expression[];
  named: Argument[];
  /** `*expression` and `**expression`. */
  spread: Expression | null;
  spreadNamed: Expression | null;
}

export interface FilterCall {
  name: string;
  arguments: CallArguments;
  line: number;
}

export type BinaryOperator = "+" | "-" | "*" | "/" | "//" | "%" | "**";
export type ComparisonOperator = "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in";

export interface SliceExpression {
  kind: "slice";
  start: Expression | null;
  stop: Expression | null;
  step: Expression | null;
}

export type Expression =
  | { kind: "constant"; value: null | boolean | string }
  | { kind: "integer"; value: number | bigint }
  | { kind: "float"; value: number }
  | { kind: "name"; name: string }
  | { kind: "attribute"; object: Expression; name: string }
  | { kind: "item"; object: Expression; index: Expression | SliceExpression }
  | { kind: "call"; callee: Expression; arguments: CallArguments }
  | { kind: "filter"; value: Expression; filter: FilterCall }
  | { kind: "test"; value: Expression; name: string; negated: boolean; arguments: CallArguments }
  | { kind: "binary"; operator: BinaryOperator; left: Expression; right: Expression }
  | { kind: "unary"; operator: "+" | "-" | "not"; value: Expression }
  | { kind: "logical"; operator: "and" | "or"; left: Expression; right: Expression }
  | { kind: "comparison"; first: Expression; rest: { operator: ComparisonOperator; value: Expression }[] }
  | { kind: "concatenation"; values: Expression[] }
  | { kind: "conditional"; test: Expression; value: Expression; otherwise: Expression | null; line: number }
  | { kind: "list"; items: Expression[] }
  | { kind: "tuple"; items: Expression[] }
  | { kind: "dict"; entries: { key: Expression; value: Expression }[] };

/** What a value can be assigned to; `{% set ns.x = ... %}` writes to a namespace. */
export type Target =
  | { kind: "name"; name: string }
  | { kind: "namespace"; name: string; attribute: string }
  | { kind: "tuple"; items: Target[] };

export interface Signature {
  parameters: string[];
  /** Defaults of the last parameters, in their order. */
  defaults: Expression[];
}

/** Which of the names that take special arguments the body of a macro uses. */
export interface SpecialNames {
  caller: boolean;
  varargs: boolean;
  kwargs: boolean;
}

export type Statement =
  | { kind: "text"; text: string }
  | { kind: "print"; value: Expression; line: number }
  | { kind: "if"; branches: { test: Expression; body: Statement[]; line: number }[]; otherwise: Statement[] }
  | {
      kind: "for";
      target: Target;
      iterable: Expression;
      filter: Expression | null;
      recursive: boolean;
      body: Statement[];
      otherwise: Statement[];
      line: number;
    }
  | { kind: "set"; target: Target; value: Expression; line: number }
  | { kind: "setBlock"; target: Target; filters: FilterCall[]; body: Statement[]; line: number }
  | { kind: "filterBlock"; filters: FilterCall[]; body: Statement[]; line: number }
  | { kind: "macro"; name: string; signature: Signature; body: Statement[]; uses: SpecialNames; line: number }
  | {
      kind: "call";
      signature: Signature;
      call: Expression & { kind: "call" };
      body: Statement[];
      uses: SpecialNames;
      line: number;
    }
  | { kind: "with"; targets: Target[]; values: Expression[]; body: Statement[]; line: number }
  | { kind: "generation"; body: Statement[]; line: number }
  | { kind: "break" | "continue"; line: number };
