// JSON Schema to the intermediate form. Every value that a schema allows has a text here, though not every spelling that
// JSON knows: integers are digits alone, and so are numbers that the schema names, where they are integers; where a number's
// size counts, it is plain or in scientific notation with one digit before the point, which is not zero (2.5 and 2.50e0, not
// 25e-1); strings escape only what must be. Properties come in the order in which they are declared, others
// once those that are required have come, unless a schema says "x-property-order": "any". A name that is not declared may come twice; JSON's readers then take the last one. So where a schema
// asks for a member of some such name by its value, as the opposite of "additionalProperties" does, that member comes last.

import { GrammarError } from "../grammar/grammarError.js";
import { ANY_CHARACTER, alt, and, chain, type Expr, NEVER, not, repeat, seq, text } from "../grammar/ir.js";
import { isMatch } from "../grammar/regularMatch.js";
import { spend } from "../grammar/workBudget.js";
import { withoutSpellings } from "../json.js";
import { arrayExpr, countedArrayExpr } from "./arrays.js";
import { ASSERTIONS } from "./assertions.js";
import { Branches } from "./branches.js";
import {
  asFraction,
  commonMultiple,
  compareDecimals,
  type Decimal,
  isInteger,
  shifted,
  toDecimal,
} from "./decimals.js";
import { isObject, type MemberCondition, type Scalar, SchemaDocument, type SchemaNode } from "./document.js";
import { isWithin } from "./emptiness.js";
import { fixedPointRange, fractionalRange, integerRange } from "./integers.js";
import type { JsonRules } from "./jsonValues.js";
import { keywordError, listOf } from "./keywords.js";
import { type MemberWay, memberWays, nameConditions } from "./memberConditions.js";
import { MAX_LOOSE, type Member, type Members, membersExpr, objectExpr, Separator } from "./members.js";
import { multiplesInRange } from "./multiples.js";
import { type Bound, numberRange, plainDecimal } from "./numbers.js";
import type { ParameterNotation } from "./parameters.js";
import { patternSets } from "./patternSets.js";
import {
  arrayShape,
  type Branch,
  type Conjunction,
  highestInteger,
  type JsonType,
  lowestInteger,
  type NumberShape,
  numberShape,
  objectShape,
  type TypeShape,
  typeOf,
  typeShape,
} from "./shape.js";
import { nameContent, stringContent } from "./strings.js";

/** Each set of patterns that a name may match has a rule of its own. */
const MAX_PATTERN_SETS = 64;
/**
 * Properties that come in any order because a request says so: each set of those that have come is a rule. Once a grammar has so
 * many such sets, its further objects have few.
 */
const MAX_FREE = 8;
const MAX_FREE_SETS = 2048;
const MAX_FREE_BEYOND = 3;
/** Steps of work that a range of numbers comes to, and a single one. */
const RANGE_COST = 2000;
const LITERAL_COST = 100;
/** And a reference that is followed. */
const REFERENCE_COST = 20;

export interface JsonSchemaOptions {
  /** Objects that declare properties have no others unless they say so. */
  closed: boolean;
  /** Properties come in any order where a schema does not say "x-property-order": "declared". Default: as declared. */
  anyOrder?: boolean;
  /** The schema is that of a function's parameters, which are written so. Default: as a JSON value. */
  parameters?: ParameterNotation;
  /** Only the objects among the values. Default: all. */
  isObject?: boolean;
}

/**
 * The values that `schema` allows.
 * @throws GrammarError naming a keyword that cannot be enforced exactly, and its path.
 */
export function jsonSchemaToExpr(json: JsonRules, schema: unknown, options: JsonSchemaOptions): Expr {
  if (!isObject(schema) && typeof schema !== "boolean") throw new GrammarError("must be an object or a boolean");
  const spellings = new Map<number, string>();
  const document = new SchemaDocument(withoutSpellings(schema, spellings) as typeof schema);
  const compiler = new SchemaCompiler(json, document, options, spellings);
  return compiler.compile(options);
}

/** How the members of an object are written. */
interface MemberWriting {
  value(nodes: Conjunction): Expr;
  named(name: string, value: Expr): Expr;
  /** `name`: what it may be; null: anything. */
  other(name: Expr | null, value: Expr): Expr;
}

class SchemaCompiler {
  private readonly closed: boolean;
  private readonly anyOrder: boolean;
  private readonly branches: Branches;
  /** By the schemas that a value must satisfy. */
  private readonly known = new Map<number | string, Expr>();
  /** By name and value. */
  private readonly namedMembers = new Map<string, Map<Expr, Expr>>();
  private readonly otherNames = new Map<string, Expr>();
  private readonly numbers = new Map<string, Expr>();
  private readonly comma: Separator;
  private freeSets = 0;
  private readonly waiting: { nodes: Conjunction; rule: Extract<Expr, { kind: "rule" }> }[] = [];

  constructor(
    private readonly json: JsonRules,
    private readonly document: SchemaDocument,
    options: JsonSchemaOptions,
    /** Of numbers that are no integers, where the schema writes them in another way than a program would. */
    private readonly spellings: ReadonlyMap<number, string>,
  ) {
    this.closed = options.closed;
    this.anyOrder = options.anyOrder ?? false;
    this.branches = new Branches(document, options.closed);
    this.comma = new Separator(json.comma);
  }

  compile({ parameters, isObject }: JsonSchemaOptions): Expr {
    const root = parameters
      ? this.parameters(parameters)
      : isObject
        ? this.rootObject()
        : this.value([this.document.root]);
    for (let next = this.waiting.pop(); next !== undefined; next = this.waiting.pop()) {
      this.json.rules.define(next.rule, this.alternatives(next.nodes));
    }
    return root;
  }

  /** A value that satisfies all of `nodes`. */
  private value(nodes: Conjunction): Expr {
    if (nodes.length === 1) {
      const node = this.withoutDetour(nodes[0]!);
      if (typeof node.schema === "boolean") return node.schema ? this.json.value() : NEVER;
      return this.known.get(node.id) ?? this.rule(node.id, [node]);
    }
    const kept: SchemaNode[] = [];
    for (const node of nodes) {
      const target = this.withoutDetour(node);
      if (target.schema === false) return NEVER;
      if (target.schema !== true && !kept.includes(target)) kept.push(target);
    }
    if (kept.length === 0) return this.json.value();
    const key = kept.length === 1 ? kept[0]!.id : kept.map((node) => node.id).join(" ");
    return this.known.get(key) ?? this.rule(key, kept);
  }

  /** Written when those that wait are. */
  private rule(key: number | string, nodes: Conjunction): Expr {
    const rule = this.json.rules.reserve();
    this.known.set(key, rule);
    this.waiting.push({ nodes, rule });
    return rule;
  }

  /** Follows what is nothing but a reference, so that its target is compiled once. */
  private withoutDetour(node: SchemaNode): SchemaNode {
    let keyword = onlyAssertion(node);
    if (keyword !== "$ref" && keyword !== "allOf") return node;
    const seen: SchemaNode[] = [];
    for (let at = node; !seen.includes(at); keyword = onlyAssertion(at)) {
      if (keyword !== "$ref" && keyword !== "allOf") return at;
      spend(REFERENCE_COST);
      seen.push(at);
      if (keyword === "$ref") at = this.document.resolve(at, "$ref");
      else if (listOf(at, "allOf").length === 1) at = this.document.child(at, "allOf", "0");
      else return at;
    }
    return node;
  }

  private alternatives(nodes: Conjunction): Expr {
    const branches = this.branches.of(nodes);
    const [node] = nodes;
    if (nodes.length === 1 && onlyAssertion(node!) === "anyOf") {
      return alt(...listOf(node!, "anyOf").map((i) => this.value([this.document.child(node!, "anyOf", i)])));
    }
    return alt(...branches.map((branch) => this.branch(branch)));
  }

  private branch(branch: Branch): Expr {
    const shape = typeShape(branch);
    if (shape.literals !== null) return this.literals(branch, shape);
    return alt(...[...shape.types].map((type) => this.ofType(type, branch, shape)));
  }

  private ofType(type: JsonType, branch: Branch, shape: TypeShape): Expr {
    switch (type) {
      case "null":
        return this.json.constant(null);
      case "boolean":
        return alt(...[true, false].filter((one) => !isExcluded(branch, one)).map((one) => this.json.constant(one)));
      case "number":
        return this.number(branch, shape);
      case "string":
        return this.string(branch);
      case "array":
        return this.array(branch);
      case "object":
        return this.object(branch);
    }
  }

  private literals(branch: Branch, { literals, types, integer, fractional }: TypeShape): Expr {
    spend(LITERAL_COST * literals!.length);
    const { low, high, steps, excludedSteps } = numberShape(branch);
    const parts = literals!.flatMap((value) => {
      if (!types.has(typeOf(value)) || typeof value === "string") return [];
      if (typeof value !== "number" && typeof value !== "bigint") return [this.json.constant(value)];
      const decimal = toDecimal(value);
      const [numerator, denominator] = asFraction(decimal);
      const isMultiple =
        steps.every(({ step }) => {
          const [size, scale] = asFraction(step);
          return (numerator * scale) % (size * denominator) === 0n;
        }) && excludedSteps.every(({ step }) => numerator % (step * denominator) !== 0n);
      const hasForm = isInteger(decimal) ? !fractional : !integer;
      const isAllowed = isWithin(value, low, high) && isMultiple && hasForm;
      if (!isAllowed) return [];
      return [text(isInteger(decimal) ? plainDecimal(decimal) : (this.spellings.get(Number(value)) ?? String(value)))];
    });
    if (types.has("string")) parts.push(this.string(branch));
    return alt(...parts);
  }

  /** Where single numbers are excluded, what lies between them. */
  private number(branch: Branch, shape: TypeShape): Expr {
    const numbers = numberShape(branch);
    const { low, high } = numbers;
    const excluded = branch
      .flatMap((node) => node.excluded ?? [])
      .filter((value) => isWithin(value, low, high))
      .map((value) => toDecimal(value as number | bigint))
      .sort(compareDecimals);
    const holes = excluded.map((value): Bound => ({ value, inclusive: false }));
    spend(RANGE_COST * holes.length);
    const parts = [low, ...holes].map((from, i) => this.numbersBetween(from, holes[i] ?? high, shape, numbers));
    return alt(...parts);
  }

  /** One expression for the same numbers, whatever else is asked of a value. */
  private numbersBetween(low: Bound | null, high: Bound | null, shape: TypeShape, numbers: NumberShape): Expr {
    const { integer, fractional } = shape;
    const steps = numbers.steps.map(({ step }) => decimalKey(step));
    const excludedSteps = numbers.excludedSteps.map(({ step }) => step);
    const key = `${integer} ${fractional} ${boundKey(low)} ${boundKey(high)} ${steps} ${excludedSteps}`;
    let expr = this.numbers.get(key);
    if (expr === undefined) {
      expr = this.newNumbersBetween(low, high, shape, numbers);
      this.numbers.set(key, expr);
    }
    return expr;
  }

  private newNumbersBetween(
    low: Bound | null,
    high: Bound | null,
    { integer, fractional }: TypeShape,
    { steps, excludedSteps }: NumberShape,
  ): Expr {
    if (steps.length + excludedSteps.length === 0) {
      // Without bounds they are one automaton in every grammar.
      if (fractional && low === null && high === null) return this.json.rules.add(fractionalRange(low, high));
      if (fractional) return fractionalRange(low, high);
      return integer ? integerRange(low && lowestInteger(low), high && highestInteger(high)) : numberRange(low, high);
    }
    const [step, places] = commonMultiple(
      steps.map((one) => one.step),
      integer,
    );
    if (fractional && places === 0) return NEVER;
    if (step === 1n && places === 0 && excludedSteps.length === 0) {
      return integerRange(low && lowestInteger(low), high && highestInteger(high));
    }
    if (step === 1n && excludedSteps.length === 0) {
      const fixed = fixedPointRange(low, high, places);
      return fractional ? and(fixed, fractionalRange(null, null)) : fixed;
    }
    const { node } = [...steps, ...excludedSteps][0]!;
    if (fractional) throw keywordError(node, "multipleOf", "cannot be enforced where integers are excluded");
    const scaled = (bound: Bound): Bound => ({ ...bound, value: shifted(bound.value, places) });
    const from = low && lowestInteger(scaled(low));
    const to = high && highestInteger(scaled(high));
    try {
      const excluded = excludedSteps.map((one) => one.step);
      return multiplesInRange(this.json.rules, from, to, step, places, excluded);
    } catch (error) {
      throw error instanceof GrammarError ? keywordError(node, "multipleOf", error.message) : error;
    }
  }

  private string(branch: Branch): Expr {
    const content = stringContent(branch);
    if (!content.free) return this.json.stringOf(content.content);
    const { min, max } = content;
    return min === 0 && max === -1 ? this.json.string() : this.json.stringOfLength(min, max);
  }

  private array(branch: Branch): Expr {
    const shape = arrayShape(this.document, branch);
    const { prefix, rest, min, max, contained, unique } = shape;
    if (max !== -1 && max < min) return NEVER;
    const isFree = contained.length === 0 && unique === null && prefix.length === 0 && rest.length === 0;
    if (isFree && min === 0 && max === -1) return this.json.array();
    const value = (nodes: Conjunction) => this.value(nodes);
    if (contained.length === 0 && unique === null) return arrayExpr(this.json, shape, value);
    return countedArrayExpr(this.json, this.document, this.branches, shape, value, this.closed);
  }

  private rootObject(): Expr {
    return alt(...this.objectBranches().map((branch) => this.object(branch)));
  }

  /** Of the root. @throws GrammarError where it has none */
  private objectBranches(): Branch[] {
    const branches = this.branches.of([this.document.root]).filter((branch) => typeShape(branch).types.has("object"));
    if (branches.length === 0) throw new GrammarError("allows no object, which the arguments of a function are");
    return branches;
  }

  /** The root, an object, as the parameters of a function. */
  private parameters(notation: ParameterNotation): Expr {
    const writing: MemberWriting = {
      value: (nodes) => this.parameterValue(nodes, notation),
      named: (name, value) => {
        if (name === "" || notation.endsName.test(name)) {
          throw new GrammarError("is a name that calls in this model's notation cannot have", ["properties", name]);
        }
        return notation.parameter(text(name), value);
      },
      other: (name, value) => notation.parameter(name === null ? notation.name : and(name, notation.name), value),
    };
    const separator = new Separator(notation.separator(this.json));
    return alt(
      ...this.objectBranches().map((branch) => {
        return this.members(branch, writing, (members) => membersExpr(this.json.rules, separator, members));
      }),
    );
  }

  /** Strings may stand without quotes; all other values are as in JSON. */
  private parameterValue(nodes: Conjunction, notation: ParameterNotation): Expr {
    if (notation.plainText === null) return this.value(nodes);
    const values = this.branches.of(nodes).flatMap((branch): Expr[] => {
      const shape = typeShape(branch);
      const others = [...shape.types].filter((type) => type !== "string");
      const found =
        shape.literals === null
          ? others.map((type) => this.ofType(type, branch, shape))
          : [this.literals(branch, { ...shape, types: new Set(others) })];
      return shape.types.has("string") ? [...found, this.plainString(branch, notation.plainText!)] : found;
    });
    return alt(...values);
  }

  private plainString(branch: Branch, plainText: Expr): Expr {
    const content = stringContent(branch);
    if (!content.free) return and(content.content, plainText);
    const isAny = content.min === 0 && content.max === -1;
    return isAny ? plainText : and(repeat(ANY_CHARACTER, content.min, content.max), plainText);
  }

  private object(branch: Branch): Expr {
    const shape = objectShape(this.document, branch, this.closed);
    const isConditional = branch.some((node) => node.member !== undefined);
    if (!isConditional && shape.named.length === 0 && shape.names.length === 0 && shape.patterns.length === 0) {
      const isAny = shape.min === 0 && shape.max === -1;
      if (isAny && shape.additional(new Set())!.every((node) => node.schema === true)) return this.json.object();
    }
    const writing: MemberWriting = {
      value: (nodes) => this.value(nodes),
      named: (name, value) => this.namedMember(name, value),
      other: (name, value) => seq(this.json.nameOf(name), this.json.colon, value),
    };
    return this.members(branch, writing, (members) => objectExpr(this.json, this.comma, members));
  }

  /** One expression, however many alternatives have the member. */
  private namedMember(name: string, value: Expr): Expr {
    let ofName = this.namedMembers.get(name);
    if (ofName === undefined) {
      ofName = new Map();
      this.namedMembers.set(name, ofName);
    }
    let expr = ofName.get(value);
    if (expr === undefined) {
      expr = chain(this.json.name(name), this.json.colon, value);
      ofName.set(value, expr);
    }
    return expr;
  }

  /** One expression for all objects that declare the same names. */
  private otherThan(names: readonly string[]): Expr {
    const key = names.map((name) => `${name.length} ${name}`).join("");
    let expr = this.otherNames.get(key);
    if (expr === undefined) {
      expr = not(alt(...names.map(text)));
      this.otherNames.set(key, expr);
    }
    return expr;
  }

  /** What `write` makes of the members of an object. */
  private members(branch: Branch, writing: MemberWriting, write: (members: Members) => Expr): Expr {
    const ways = memberWays(this.document, this.branches, branch, this.closed);
    return alt(...ways.map((way) => this.membersOf(way, writing, write)));
  }

  private membersOf({ branch, others }: MemberWay, writing: MemberWriting, write: (members: Members) => Expr): Expr {
    const shape = objectShape(this.document, branch, this.closed);
    const names = nameContent(this.branches, shape.names);
    const ordered: Member[] = [];
    const loose: Member[] = [];
    const named = this.json.sortsMembers ? [...shape.named].sort(byName) : shape.named;
    for (const { name, value, required, declared } of named) {
      const isAllowed = value !== null && (names === null || isMatch(names, name));
      const expr = isAllowed ? writing.value(value) : NEVER;
      if (expr.kind === "never" && required) return NEVER;
      if (expr.kind === "never") continue;
      const member = { member: writing.named(name, expr), required };
      if (declared && shape.order !== "any") ordered.push(member);
      else loose.push(member);
    }
    const repeatable = this.anyOrder && shape.order === null ? this.freed(ordered, loose, shape) : [];
    const given = shape.named.map((property) => property.name);
    for (const conditions of others) {
      const member = this.additional(branch, shape, given, names, writing, conditions);
      if (member === null) return NEVER;
      // What another member of its name says later would count.
      loose.push({ member, required: true, last: conditions.some(({ value }) => value.schema !== true) });
    }
    if (loose.length > MAX_LOOSE) {
      const keyword = shape.order === "any" ? "x-property-order" : "required";
      const why = `more than ${MAX_LOOSE} properties in any order cannot be enforced`;
      throw keywordError(nodeWith(branch, keyword), keyword, why);
    }
    const { min, max } = shape;
    const additional = this.additional(branch, shape, given, names, writing);
    const repeated = additional === null && repeatable.length === 0 ? null : alt(additional ?? NEVER, ...repeatable);
    const members = { ordered, loose, additional: repeated, min, max };
    this.checkCounts(branch, members);
    try {
      return write(members);
    } catch (error) {
      throw error instanceof GrammarError ? error.under(...nodeWith(branch, error.path[0]).path) : error;
    }
  }

  /**
   * Takes what is ordered for loose, if all orders are not too many. Else only what is required, and answers with the others,
   * which may then come again; neither where that makes a difference, or is too many too.
   */
  private freed(ordered: Member[], loose: Member[], { min, max }: { min: number; max: number }): Expr[] {
    const limit = this.freeSets < MAX_FREE_SETS ? MAX_FREE : MAX_FREE_BEYOND;
    const all = [...loose, ...ordered];
    const required = all.filter((one) => one.required);
    const isFew = all.length <= limit;
    if (!isFew && (required.length > limit || max !== -1 || min > required.length)) return [];
    ordered.length = 0;
    loose.length = 0;
    loose.push(...(isFew ? all : required));
    this.freeSets += 2 ** loose.length;
    return isFew ? [] : all.filter((one) => !one.required).map((one) => one.member);
  }

  /** Names that are not declared can be told apart from each other only by an automaton without bound. */
  private checkCounts(branch: Branch, { ordered, loose, additional, min }: Members): void {
    const required = [...ordered, ...loose].filter((one) => one.required).length;
    if (additional === null || min <= required + 1) return;
    const why = `cannot be enforced: of names that are not declared, only one can be counted (${required} are required)`;
    throw keywordError(nodeWith(branch, "minProperties"), "minProperties", why);
  }

  /** A member whose name is not declared; one that meets the conditions that are `asked`. */
  private additional(
    branch: Branch,
    shape: ReturnType<typeof objectShape>,
    declared: readonly string[],
    names: Expr | null,
    writing: MemberWriting,
    asked: readonly MemberCondition[] = [],
  ): Expr | null {
    const { patterns } = shape;
    const sets = patternSets(patterns, MAX_PATTERN_SETS);
    if (sets === null) {
      const node = nodeWith(branch, "patternProperties");
      const why = `patterns that names match in more than ${MAX_PATTERN_SETS} combinations cannot be enforced together`;
      throw keywordError(node, "patternProperties", why);
    }
    const members: Expr[] = [];
    for (const { matched, unmatched } of sets) {
      const nodes = shape.additional(new Set(matched.map((one) => one.pattern)));
      const value = nodes === null ? NEVER : writing.value([...nodes, ...asked.map((one) => one.value)]);
      if (value.kind === "never") continue;
      const conditions = [...matched.map(({ search }) => search), ...unmatched.map(({ search }) => not(search))];
      if (declared.length > 0) conditions.push(this.otherThan(declared));
      if (names !== null) conditions.push(names);
      for (const one of asked) conditions.push(...nameConditions(this.branches, one));
      members.push(writing.other(conditions.length === 0 ? null : and(...conditions), value));
    }
    return members.length === 0 ? null : alt(...members);
  }
}

/** As templates sort them, whose `dictsort` makes no difference between capitals and small letters. */
function byName({ name: a }: { name: string }, { name: b }: { name: string }): number {
  const [first, second] = [a.toLowerCase(), b.toLowerCase()];
  return first < second ? -1 : first > second ? 1 : 0;
}

function decimalKey({ negative, digits, exponent }: Decimal): string {
  return `${negative ? "-" : ""}${digits}e${exponent}`;
}

function boundKey(bound: Bound | null): string {
  return bound === null ? "none" : `${decimalKey(bound.value)}${bound.inclusive ? "" : " excluded"}`;
}

function isExcluded(branch: Branch, value: Scalar): boolean {
  return branch.some((node) => node.excluded?.includes(value));
}

/** The one keyword of a schema that says something about a value; null: there is none, or more. */
function onlyAssertion({ schema }: SchemaNode): string | null {
  if (!isObject(schema)) return null;
  let found: string | null = null;
  for (const keyword of Object.keys(schema)) {
    if (!ASSERTIONS.has(keyword)) continue;
    if (found !== null) return null;
    found = keyword;
  }
  return found;
}

/** The schema of the branch that has a keyword. */
function nodeWith(branch: Branch, keyword: string | undefined): SchemaNode {
  const found = branch.find((node) => isObject(node.schema) && keyword !== undefined && keyword in node.schema);
  return found ?? branch[0]!;
}
