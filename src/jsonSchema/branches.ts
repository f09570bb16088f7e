// Schemas taken apart into branches: references followed, allOf merged, each combination of alternatives on its own.

import { GrammarError } from "../grammar/grammarError.js";
import { spend } from "../grammar/workBudget.js";
import { CircularError } from "./circularError.js";
import { isObject, type JsonObject, type Scalar, type SchemaDocument, type SchemaNode } from "./document.js";
import { isProvablyEmpty, MAX_DEPTH } from "./emptiness.js";
import { checkKeywords, keysOf, keywordError, listOf, namesOf, stringOf } from "./keywords.js";
import { withoutNarrower } from "./narrowerBranches.js";
import { negate } from "./negation.js";
import { areSeenApart, outlineOf } from "./outlines.js";
import { arrayParts, type Branch, type BranchReader, type Conjunction } from "./shape.js";
import { exactly } from "./values.js";

const MAX_BRANCHES = 2000;
const MANY_BRANCHES = 8;
/** Of the schemas of two branches: more take longer than a set. */
const MANY_COMPARISONS = 256;
/** Each set of alternatives is one of its own where what they evaluate counts. */
const MAX_TOGETHER = 6;
/** Steps of work that a comparison of two alternatives comes to. */
const COMPARE_COST = 100;

export class Branches implements BranchReader {
  private readonly known = new Map<number, Branch[]>();
  private readonly open = new Set<number>();

  constructor(
    private readonly document: SchemaDocument,
    /** Objects that declare properties have no others unless they say so. */
    private readonly closed: boolean,
  ) {}

  /** A value satisfies all of `nodes` exactly when it satisfies one of the branches. */
  of(nodes: Conjunction): Branch[] {
    if (nodes.length === 1) return this.ofNode(nodes[0]!);
    nodes.branches ??= nodes.reduce<Branch[]>((before, node) => this.combined(before, this.ofNode(node), node), [[]]);
    return nodes.branches;
  }

  /** As `of`; null where that is part of the question, as one of the schemas is being taken apart. */
  ofKnown(nodes: Conjunction): Branch[] | null {
    try {
      return this.of(nodes);
    } catch (error) {
      if (error instanceof CircularError) return null;
      throw error;
    }
  }

  /** Whether no value satisfies all of them; false when that is not seen. */
  excludeEachOther(nodes: Conjunction): boolean {
    spend(COMPARE_COST);
    return this.of(nodes).every((branch) => isProvablyEmpty(this.document, this, branch, this.closed));
  }

  /** Many are multiplied only when those that contradict themselves, or say no more than others, are gone. */
  private combined(left: readonly Branch[], right: readonly Branch[], node: SchemaNode): Branch[] {
    const found = cross(left, right, node);
    return left.length > 1 && found.length > MANY_BRANCHES ? this.reduced(found) : found;
  }

  /** Without looking into properties and items: those are taken apart when they are needed, one after the other. */
  private reduced(branches: Branch[]): Branch[] {
    // What is evaluated is more where more is said.
    const kept = this.document.hasUnevaluated ? branches : withoutNarrower(branches);
    return kept.filter((branch) => !isProvablyEmpty(this.document, this, branch, this.closed, MAX_DEPTH));
  }

  private ofNode(node: SchemaNode): Branch[] {
    const known = this.known.get(node.id);
    if (known !== undefined) return known;
    if (this.open.has(node.id)) throw new CircularError(node.path);
    this.open.add(node.id);
    try {
      const found = this.takenApart(node);
      this.known.set(node.id, found);
      return found;
    } finally {
      this.open.delete(node.id);
    }
  }

  private takenApart(node: SchemaNode): Branch[] {
    if (node.literals !== undefined || node.excluded !== undefined) return [[node]];
    if (typeof node.schema === "boolean") return node.schema ? [[]] : [];
    const { schema } = node;
    checkKeywords(node);
    if (schema.$ref !== undefined && node.dialect.refReplaces) return this.ofNode(this.document.resolve(node, "$ref"));
    // In the order of the keywords, so that the properties of a base come before those that are added to it.
    let found: Branch[] = [[]];
    let hasOwn = false;
    for (const keyword of Object.keys(schema)) {
      const alternatives = keyword === "properties" ? [[node]] : this.ofKeyword(node, schema, keyword);
      if (keyword === "properties") hasOwn = true;
      if (alternatives !== null) found = this.combined(found, alternatives, node);
    }
    const all = hasOwn ? found : cross(found, [[node]], node);
    return this.document.hasUnevaluated ? all.map((branch) => withoutUnevaluated(this.document, node, branch)) : all;
  }

  private ofContent(node: SchemaNode, keyword: "contentEncoding" | "contentMediaType"): SchemaNode {
    if (stringOf(node, keyword) !== "base64" || keyword === "contentMediaType") {
      throw keywordError(node, keyword, 'cannot be enforced; of draft 7, "contentEncoding": "base64" can');
    }
    return this.document.derive(node, keyword, { schema: { format: "base64" } });
  }

  /** null: a keyword of the schema's own, or an annotation. */
  private ofKeyword(node: SchemaNode, schema: JsonObject, keyword: string): Branch[] | null {
    const { document } = this;
    switch (keyword) {
      case "$ref":
        return this.ofNode(document.resolve(node, "$ref"));
      case "contentEncoding":
      case "contentMediaType":
        return node.dialect.contentIsAsserted ? [[this.ofContent(node, keyword)]] : null;
      case "$dynamicRef":
      case "$recursiveRef":
        return this.ofNode(document.resolveDynamic(node, keyword));
      case "allOf":
        return this.of(listOf(node, keyword).map((i) => document.child(node, keyword, i)));
      case "anyOf":
        return this.anyOfKeyword(node);
      case "oneOf":
        return this.oneOf(node);
      case "not":
        return this.negated(document.child(node, "not"));
      case "if":
        return this.ifThenElse(node, schema);
      case "const":
        return this.silent(this.anyOf(this.values(node, keyword, [schema.const])));
      case "enum":
        if (!Array.isArray(schema.enum)) throw keywordError(node, keyword, "must be a list of values");
        return this.silent(this.anyOf(this.values(node, keyword, schema.enum)));
      case "dependentRequired":
      case "dependentSchemas":
      case "dependencies":
        return this.dependencies(node, keyword);
      default:
        return null;
    }
  }

  private anyOf(nodes: readonly SchemaNode[]): Branch[] {
    return nodes.flatMap((node) => this.ofNode(node));
  }

  private negated(node: SchemaNode): Branch[] {
    return this.silent(this.anyOf(negate(this.document, node)));
  }

  /** The same branches, of which nothing counts as evaluated. */
  private silent(branches: Branch[]): Branch[] {
    const { document } = this;
    if (!document.hasUnevaluated) return branches;
    return branches.map((branch) =>
      branch.map((node) => {
        if (node.silent) return node;
        const { id, base, path, ...parts } = node;
        return document.derive(node, "silent", { ...parts, silent: true });
      }),
    );
  }

  /** What several alternatives evaluate together makes a difference where something asks for the rest. */
  private anyOfKeyword(node: SchemaNode): Branch[] {
    const alternatives = listOf(node, "anyOf").map((i) => this.document.child(node, "anyOf", i));
    if (!this.document.hasUnevaluated) return this.anyOf(alternatives);
    if (alternatives.length > MAX_TOGETHER) {
      const why = `of more than ${MAX_TOGETHER} alternatives cannot be enforced in a schema with unevaluated keywords`;
      throw keywordError(node, "anyOf", why);
    }
    return Array.from({ length: 2 ** alternatives.length - 1 }, (_, i) =>
      this.of(alternatives.filter((_, j) => (i + 1) & (1 << j))),
    ).flat();
  }

  /** Where two alternatives may both hold, each is taken without the other. */
  private oneOf(node: SchemaNode): Branch[] {
    const { document } = this;
    const alternatives = listOf(node, "oneOf").map((i) => document.child(node, "oneOf", i));
    const own = document.derive(node, "own keywords", { schema: withoutCombinations(node.schema as JsonObject) });
    const outlines = alternatives.map((one) => outlineOf(document, this, [own, one], this.closed));
    const areApart = alternatives.map((one, i) =>
      alternatives.slice(0, i).map((other, j) => {
        spend(COMPARE_COST / 10);
        return areSeenApart(outlines[i]!, outlines[j]!) || this.excludeEachOther([own, one, other]);
      }),
    );
    // In the order of the alternatives, so that properties have one order whichever of them holds.
    return alternatives.flatMap((_, i) => {
      let found: Branch[] = [[]];
      for (const [j, other] of alternatives.entries()) {
        if (i !== j && areApart[Math.max(i, j)]![Math.min(i, j)]) continue;
        try {
          found = cross(found, i === j ? this.ofNode(other) : this.negated(other), node);
        } catch (error) {
          if (i === j || !(error instanceof GrammarError)) throw error;
          const why = `alternatives ${Math.min(i, j)} and ${Math.max(i, j)} may hold together, which cannot be ruled out`;
          throw keywordError(node, "oneOf", `${why} (${error.path.at(-1) ?? ""} ${error.message})`);
        }
        if (found.length > 1) found = this.reduced(found);
      }
      return found;
    });
  }

  private ifThenElse(node: SchemaNode, schema: JsonObject): Branch[] {
    const { document } = this;
    if (schema.then === undefined && schema.else === undefined) {
      // A condition without consequences still evaluates what it looks at.
      return document.hasUnevaluated ? [[], ...this.ofNode(document.child(node, "if"))] : [[]];
    }
    const condition = document.child(node, "if");
    const held = schema.then === undefined ? [condition] : [condition, document.child(node, "then")];
    const otherwise = schema.else === undefined ? [[]] : this.ofNode(document.child(node, "else"));
    return [...this.of(held), ...cross(this.negated(condition), otherwise, node)];
  }

  /** A name that is there asks for others, or for a schema of the whole object. */
  private dependencies(node: SchemaNode, keyword: string): Branch[] {
    const { document } = this;
    let found: Branch[] = [[]];
    for (const name of keysOf(node, keyword)) {
      const dependency = (node.schema as JsonObject)[keyword] as JsonObject;
      const absent = document.derive(node, `without ${name}`, { schema: { properties: { [name]: false } } });
      const consequence = Array.isArray(dependency[name])
        ? document.derive(node, `${keyword} ${name}`, { schema: { required: namesOf(node, keyword, name) } })
        : document.child(node, keyword, name);
      const present = document.derive(node, `with ${name}`, { schema: { type: "object", required: [name] } });
      found = this.combined(found, [...this.ofNode(absent), ...this.of([present, consequence])], node);
    }
    return found;
  }

  /** Scalars together; a list or object as the schema that only it satisfies. */
  private values(node: SchemaNode, keyword: string, values: readonly unknown[]): SchemaNode[] {
    const { document } = this;
    const isScalar = (value: unknown): value is Scalar => typeof value !== "object" || value === null;
    const literals = values.filter(isScalar);
    const found =
      literals.length === 0 ? [] : [document.derive(node, `${keyword} literals`, { schema: true, literals })];
    for (const [i, value] of values.entries()) {
      if (isScalar(value)) continue;
      found.push(document.derive(node, `${keyword} ${i}`, { schema: exactly(value) }));
    }
    return found;
  }
}

/** What is evaluated is known of all keywords together only. */
function withoutCombinations(schema: JsonObject): JsonObject {
  const { $ref, allOf, anyOf, oneOf, not, if: condition, dependentRequired, dependentSchemas, ...others } = schema;
  const { unevaluatedProperties, unevaluatedItems, ...own } = others;
  return own;
}

function cross(left: readonly Branch[], right: readonly Branch[], node: SchemaNode): Branch[] {
  if (left.length * right.length > MAX_BRANCHES) {
    throw new GrammarError(`has more than ${MAX_BRANCHES} combinations of alternatives`, node.path);
  }
  const found: Branch[] = [];
  for (const a of left) {
    for (const b of right) {
      spend(1 + a.length + b.length);
      found.push(a.length === 0 ? b : joined(a, b));
    }
  }
  return found;
}

/** Each once. */
function joined(a: Branch, b: Branch): Branch {
  if (a.length * b.length > MANY_COMPARISONS) return [...new Set([...a, ...b])];
  const all = a.slice();
  for (const node of b) if (!a.includes(node)) all.push(node);
  return all;
}

// unevaluatedProperties and unevaluatedItems: in one branch it is known what the others evaluate, so that these keywords
// become additionalProperties and items beside what is evaluated.

/** `branch` comes of `node`; adds what the node asks of the rest. */
export function withoutUnevaluated(document: SchemaDocument, node: SchemaNode, branch: Branch): Branch {
  const schema = node.schema as JsonObject;
  const evaluating = branch.filter((one) => !one.silent && isObject(one.schema));
  const added: SchemaNode[] = [];
  if (schema.unevaluatedProperties !== undefined) added.push(restOfProperties(document, node, evaluating));
  if (schema.unevaluatedItems !== undefined) added.push(restOfItems(document, node, evaluating));
  return [...branch, ...added];
}

function restOfProperties(document: SchemaDocument, node: SchemaNode, evaluating: Branch): SchemaNode {
  const isAll = evaluating.some((one) => (one.schema as JsonObject).additionalProperties !== undefined);
  const all = (keyword: string) =>
    Object.fromEntries(evaluating.flatMap((one) => keysOf(one, keyword)).map((key) => [key, true]));
  const schema: JsonObject = {
    properties: all("properties"),
    patternProperties: all("patternProperties"),
    additionalProperties: isAll ? true : (node.schema as JsonObject).unevaluatedProperties,
  };
  return document.derive(node, `rest of properties ${identity(evaluating)}`, { schema });
}

function restOfItems(document: SchemaDocument, node: SchemaNode, evaluating: Branch): SchemaNode {
  const parts = evaluating.map((one) => arrayParts(document, one));
  const prefix = Array.from({ length: Math.max(0, ...parts.map((part) => part.prefix.length)) }, () => true);
  const rest = (node.schema as JsonObject).unevaluatedItems;
  const found = evaluating.map((one) => (one.schema as JsonObject).contains).filter((one) => one !== undefined);
  const isAll = parts.some((part) => part.rest.length > 0);
  const items = found.length > 0 && node.dialect.containsEvaluates ? { anyOf: [rest, ...found] } : rest;
  const schema: JsonObject = { prefixItems: prefix, items: isAll ? true : items };
  return document.derive(node, `rest of items ${identity(evaluating)}`, { schema });
}

function identity(nodes: Branch): string {
  return nodes.map((one) => one.id).join(" ");
}
