// A JSON Schema as a document: its sub-schemas, their base URIs, and what references lead to.

import { GrammarError } from "../grammar/grammarError.js";
import { spend } from "../grammar/workBudget.js";
import { ASSERTIONS } from "./assertions.js";

export type JsonObject = Readonly<Record<string, unknown>>;
export type Scalar = string | number | bigint | boolean | null;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What drafts of the standard do not agree about. */
export interface Dialect {
  readonly idKeyword: "$id" | "id";
  /** Before draft 2019-09 what stands beside a $ref does not count. */
  readonly refReplaces: boolean;
  /** From draft 2020-12 on, items that are found by `contains` count as evaluated. */
  readonly containsEvaluates: boolean;
  /** Before draft 7 host names are what RFC 1123 says, and no encoded international names are told from them. */
  readonly hostnamesArePlain: boolean;
  /** In draft 7 the content of strings is asserted, before it says nothing, later it is an annotation. */
  readonly contentIsAsserted: boolean;
  /** Different for different ones. */
  readonly key: string;
}

/** A member that an object has beside those of some names: names by what they must or must not be, and its value. */
export interface MemberCondition {
  readonly origin: SchemaNode;
  /** Of the origin, whose opposite it is. */
  readonly keyword: string;
  readonly excludedNames: readonly string[];
  /** Patterns of `patternProperties`. */
  readonly excludedPatterns: readonly string[];
  readonly pattern?: string;
  readonly name?: SchemaNode;
  readonly value: SchemaNode;
}

/** A schema at its place, or a condition that schemas are taken apart into. Each has one node. */
export interface SchemaNode {
  readonly id: number;
  readonly schema: JsonObject | boolean;
  readonly base: string;
  readonly dialect: Dialect;
  /** From the root of the document. */
  readonly path: readonly string[];
  /** The value is one of these. */
  readonly literals?: readonly Scalar[];
  /** The value is none of these. */
  readonly excluded?: readonly Scalar[];
  /** If it is a number, it is no integer. */
  readonly fractional?: true;
  /** If it is an integer, it is no multiple of this one. */
  readonly excludedStep?: bigint;
  /** `contains` counts items from this one on. */
  readonly containsFrom?: number;
  /** Stands for a condition under which nothing counts as evaluated. */
  readonly silent?: true;
  /** If it is an object, it has such a member. */
  readonly member?: MemberCondition;
  /** If it is an object, it has this member; the name is not declared by that. */
  readonly named?: { readonly name: string; readonly value: SchemaNode };
  /** If it is a string, it does not match. */
  readonly excludedText?: { readonly keyword: "pattern" | "format"; readonly value: string };
}

/** Where schemas stand inside schemas: as the value of a keyword, or in its list, or below names. */
/** Steps that a schema, and any object, comes to where a document is taken in. */
const ENTER_COST = 30;
const LOOKUP_COST = 5;

const SCHEMA_KEYWORDS = new Set([
  "additionalProperties",
  "items",
  "additionalItems",
  "unevaluatedItems",
  "unevaluatedProperties",
  "contains",
  "propertyNames",
  "not",
  "if",
  "then",
  "else",
  "contentSchema",
]);
const SCHEMA_LIST_KEYWORDS = new Set(["allOf", "anyOf", "oneOf", "prefixItems", "items"]);
const SCHEMA_MAP_KEYWORDS = new Set([
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependencies",
]);

/** With these a schema is more than what it says about a value. */
const NAMING_KEYWORDS = ["$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor"];
const UNSHARED_KEYWORDS: ReadonlySet<string> = new Set([...NAMING_KEYWORDS, "$dynamicRef", "$recursiveRef"]);

/** Those of json-schema.org, and OpenAPI's, whose further keywords are annotations. */
const KNOWN_DIALECTS =
  /^https?:\/\/(json-schema\.org\/(draft-0[4-7]\/(hyper-)?|draft\/20(19-09|20-12)\/)?schema#?|spec\.openapis\.org\/.*)$/;

/** What a schema takes over from the one around it. */
type Setting = Pick<SchemaNode, "base" | "dialect">;

/** What a URL has as it is written. */
const PLAIN_FRAGMENT = /^#[\w/.~$%:-]*$/;

/** Levels of schemas in each other, as parts of a path. */
export const MAX_DEPTH = 400;
const ROOT_URI = "schema:/";

export class SchemaDocument {
  readonly root: SchemaNode;
  /** Whether what is evaluated by which schema makes a difference. */
  readonly hasUnevaluated: boolean;
  private readonly nodes = new Map<object, SchemaNode>();
  private readonly byUri = new Map<string, SchemaNode>();
  /** What references lead to, by their texts and the bases that they go from. */
  private readonly found = new Map<string, Map<string, SchemaNode>>();
  private readonly derived = new Map<string, SchemaNode>();
  /** Those that say the same about a value are one node, so that it is taken apart once. */
  private readonly alike = new Map<string, SchemaNode>();
  private count = 0;

  constructor(schema: JsonObject | boolean) {
    this.hasUnevaluated = hasKey(schema, ["unevaluatedProperties", "unevaluatedItems"]);
    this.root = this.enter(schema, { base: ROOT_URI, dialect: dialectNamed("") }, []);
    this.byUri.set(ROOT_URI, this.root);
    this.byUri.set(this.root.base, this.root);
  }

  /** The schema below a node. */
  child(parent: SchemaNode, ...keys: string[]): SchemaNode {
    let value: unknown = parent.schema;
    for (const key of keys) value = ownValue(value, key);
    return this.nodes.get(value as object) ?? this.node(value, parent, [...parent.path, ...keys]);
  }

  /** A schema made up while taking another one apart; the same for the same `what`. */
  derive(from: SchemaNode, what: string, parts: Partial<Omit<SchemaNode, "id" | keyof Setting | "path">>): SchemaNode {
    const key = `${from.id} ${what}`;
    let node = this.derived.get(key);
    if (node === undefined) {
      node = this.newDerived(from, parts);
      this.derived.set(key, node);
    }
    return node;
  }

  private newDerived(from: SchemaNode, parts: Partial<SchemaNode>): SchemaNode {
    const { base, dialect, path } = from;
    const { schema } = parts;
    const isPlain = Object.keys(parts).length === 1 && isObject(schema);
    if (isPlain && !NAMING_KEYWORDS.some((one) => one in schema)) return this.enter(schema, from, path);
    const node = { id: this.count++, schema: true, base, dialect, path, ...parts };
    if (isObject(node.schema) && !this.nodes.has(node.schema)) this.nodes.set(node.schema, node);
    return node;
  }

  /** @throws GrammarError when nothing in the document has that name. */
  resolve(from: SchemaNode, keyword: string): SchemaNode {
    const reference = isObject(from.schema) ? from.schema[keyword] : undefined;
    if (typeof reference !== "string") throw new GrammarError("must be a string", [...from.path, keyword]);
    const known = this.found.get(reference)?.get(from.base);
    if (known !== undefined) return known;
    const target = this.find(reference, from.base);
    if (target === null) {
      throw new GrammarError(`"${reference}" is not found in this schema`, [...from.path, keyword]);
    }
    const ofReference = this.found.get(reference) ?? new Map<string, SchemaNode>();
    this.found.set(reference, ofReference.set(from.base, target));
    return target;
  }

  /**
   * What a reference leads to that means the outermost schema of its name on the way to it.
   * @throws GrammarError also where that depends on the way.
   */
  resolveDynamic(from: SchemaNode, keyword: "$dynamicRef" | "$recursiveRef"): SchemaNode {
    const target = this.resolve(from, keyword);
    const anchor = keyword === "$dynamicRef" ? "$dynamicAnchor" : "$recursiveAnchor";
    const name = isObject(target.schema) ? target.schema[anchor] : undefined;
    const fragment = String((from.schema as JsonObject)[keyword]).split("#")[1];
    const isDynamic = keyword === "$recursiveRef" ? name === true : name !== undefined && name === fragment;
    if (!isDynamic) return target;
    const named = [...new Set(this.nodes.values())].filter((node) => (node.schema as JsonObject)[anchor] === name);
    // Every way begins at the root.
    const outermost = named.find((node) => node.base === this.root.base);
    if (outermost !== undefined) return outermost;
    if (named.length === 1) return target;
    throw new GrammarError("leads to different schemas on different ways, which cannot be enforced", [
      ...from.path,
      keyword,
    ]);
  }

  private find(reference: string, base: string): SchemaNode | null {
    let uri = `${base}${reference}`;
    try {
      if (!PLAIN_FRAGMENT.test(reference)) uri = new URL(reference, base).href;
    } catch {
      return null;
    }
    const [location, fragment] = split(uri);
    const exact = this.byUri.get(uri) ?? this.byUri.get(`${location}#${fragment}`);
    if (exact !== undefined) return exact;
    const resource = this.byUri.get(location);
    if (resource === undefined) return null;
    if (fragment === "") return resource;
    let pointer: string;
    try {
      pointer = decodeURIComponent(fragment);
    } catch {
      return null;
    }
    return pointer.startsWith("/") ? this.follow(resource, pointer) : null;
  }

  private follow(resource: SchemaNode, pointer: string): SchemaNode | null {
    let setting: Setting = resource;
    let value: unknown = resource.schema;
    const path = [...resource.path];
    for (const part of pointer.slice(1).split("/")) {
      const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
      value = ownValue(value, key);
      path.push(key);
      if (value === undefined) return null;
      if (isObject(value)) setting = this.nodes.get(value) ?? setting;
    }
    return isObject(value) || typeof value === "boolean" ? this.node(value, setting, path) : null;
  }

  private node(schema: unknown, setting: Setting, path: readonly string[]): SchemaNode {
    if (typeof schema === "boolean") {
      const key = `boolean ${schema}`;
      let node = this.derived.get(key);
      if (node === undefined) {
        const { base, dialect } = setting;
        node = { id: this.count++, schema, base, dialect, path };
        this.derived.set(key, node);
      }
      return node;
    }
    if (!isObject(schema)) throw new GrammarError("must be a schema: an object or a boolean", path);
    return this.nodes.get(schema) ?? this.enter(schema, setting, path);
  }

  /** Gives nodes to a schema and all that stand inside it. */
  private enter(schema: JsonObject | boolean, outer: Setting, path: readonly string[]): SchemaNode {
    if (!isObject(schema)) return this.node(schema, outer, path);
    const known = this.nodes.get(schema);
    if (known !== undefined) return known;
    if (path.length > MAX_DEPTH)
      throw new GrammarError(`is nested more than ${MAX_DEPTH} levels deep`, path.slice(0, 8));
    spend(ENTER_COST + path.length);
    const dialect = schema.$schema === undefined ? outer.dialect : dialectOf(schema, path);
    const base = baseOf(schema, outer.base, dialect, path);
    const node: SchemaNode = { id: this.count++, schema, base, dialect, path };
    this.nodes.set(schema, node);
    this.register(node, outer.base);
    for (const keyword of Object.keys(schema)) {
      const value = schema[keyword];
      if (typeof value !== "object" || value === null) continue;
      if (Array.isArray(value)) {
        if (!SCHEMA_LIST_KEYWORDS.has(keyword)) continue;
        for (const [i, item] of value.entries()) this.enterItem(item, node, keyword, String(i));
      } else if (SCHEMA_KEYWORDS.has(keyword)) {
        this.enter(value as JsonObject, node, [...path, keyword]);
      } else if (SCHEMA_MAP_KEYWORDS.has(keyword)) {
        for (const name of Object.keys(value)) {
          this.enterItem((value as JsonObject)[name], node, keyword, name);
        }
      }
    }
    return this.sharedNode(node);
  }

  /** The node itself, or that of an earlier schema that says the same. */
  private sharedNode(node: SchemaNode): SchemaNode {
    // References by a place go from the root as it is.
    if (node.id === 0) return node;
    const schema = node.schema as JsonObject;
    const { base, dialect } = node;
    let key = dialect.key;
    for (const keyword of Object.keys(schema)) {
      if (UNSHARED_KEYWORDS.has(keyword)) return node;
      if (!ASSERTIONS.has(keyword)) continue;
      if (keyword === "$ref") key += textKey(base);
      const value = schema[keyword];
      key += `,${keyword}:${SCHEMA_MAP_KEYWORDS.has(keyword) ? this.mapKey(value) : this.valueKey(value)}`;
    }
    const known = this.alike.get(key);
    if (known === undefined) {
      this.alike.set(key, node);
      return node;
    }
    this.nodes.set(schema, known);
    return known;
  }

  private mapKey(value: unknown): string {
    if (!isObject(value)) return this.valueKey(value);
    let key = "{";
    for (const name of Object.keys(value)) key += `${textKey(name)}${this.valueKey(value[name])}`;
    return `${key}}`;
  }

  /** The same for the same values; a schema is its node. */
  private valueKey(value: unknown): string {
    if (typeof value === "string") return textKey(value);
    if (typeof value !== "object" || value === null) return typeof value === "bigint" ? `${value}n` : String(value);
    const node = this.nodes.get(value);
    if (node !== undefined) return `#${node.id}`;
    return Array.isArray(value) ? `[${value.map((one) => this.valueKey(one))}]` : this.mapKey(value);
  }

  private enterItem(item: unknown, parent: SchemaNode, keyword: string, key: string): void {
    if (isObject(item)) this.enter(item, parent, [...parent.path, keyword, key]);
  }

  private register(node: SchemaNode, outerBase: string): void {
    const schema = node.schema as JsonObject;
    if (node.base !== outerBase && !this.byUri.has(node.base)) this.byUri.set(node.base, node);
    const id = schema[node.dialect.idKeyword];
    const anchors = [schema.$anchor, schema.$dynamicAnchor];
    if (typeof id === "string" && id.startsWith("#")) anchors.push(id.slice(1));
    for (const anchor of anchors) {
      if (typeof anchor === "string") this.byUri.set(`${node.base}#${anchor}`, node);
    }
  }
}

/** Told from what follows it by its length. */
function textKey(text: string): string {
  return `"${text.length} ${text}`;
}

function hasKey(root: unknown, keys: readonly string[]): boolean {
  const open: unknown[] = [root];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value !== "object" || value === null) continue;
    spend(LOOKUP_COST);
    if (Array.isArray(value)) {
      for (const inner of value) open.push(inner);
      continue;
    }
    for (const key in value) {
      if (keys.includes(key)) return true;
      open.push((value as JsonObject)[key]);
    }
  }
  return false;
}

/** @throws GrammarError for a dialect that may give keywords another meaning. */
function dialectOf(schema: JsonObject, path: readonly string[]): Dialect {
  const { $schema: name } = schema;
  if (typeof name !== "string") throw new GrammarError("must be a string", [...path, "$schema"]);
  if (KNOWN_DIALECTS.test(name)) return dialectNamed(name);
  throw new GrammarError("is not a known dialect: JSON Schema's drafts from 4 to 2020-12 are", [...path, "$schema"]);
}

function dialectNamed(name: string): Dialect {
  const dialect: Omit<Dialect, "key"> = {
    idKeyword: /draft-04\b/.test(name) ? "id" : "$id",
    refReplaces: /draft-0[4-7]\b/.test(name),
    containsEvaluates: !/2019-09/.test(name),
    hostnamesArePlain: /draft-0[4-6]\b/.test(name),
    contentIsAsserted: /draft-07\b/.test(name),
  };
  return { ...dialect, key: Object.values(dialect).join(" ") };
}

function baseOf(schema: JsonObject, outer: string, dialect: Dialect, path: readonly string[]): string {
  const { idKeyword, refReplaces } = dialect;
  const id = schema[idKeyword];
  if (typeof id !== "string" || id.startsWith("#") || (refReplaces && "$ref" in schema)) return outer;
  try {
    return split(new URL(id, outer).href)[0];
  } catch {
    throw new GrammarError(`"${id}" is not a URI`, [...path, idKeyword]);
  }
}

function ownValue(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Record<string, unknown>)[key];
}

function split(uri: string): [location: string, fragment: string] {
  const at = uri.indexOf("#");
  return at < 0 ? [uri, ""] : [uri.slice(0, at), uri.slice(at + 1)];
}
