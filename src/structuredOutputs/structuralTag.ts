// Structural tags: text in which some parts, from a begin mark to an end mark, are constrained. Two shapes are known:
// `{structures, triggers}`, and `{format}` made of parts that contain each other.

import { ebnfToExpr } from "../grammar/ebnf.js";
import { GrammarError, within } from "../grammar/grammarError.js";
import { ANY_CHARACTER, alt, and, type Expr, MAX_REPETITIONS, optional, repeat, seq } from "../grammar/ir.js";
import { regexToExpr } from "../grammar/regex.js";
import { spend } from "../grammar/workBudget.js";
import { type JsonSchemaOptions, jsonSchemaToExpr } from "../jsonSchema/compile.js";
import { gemma4Values } from "../jsonSchema/gemma4Values.js";
import type { JsonRules } from "../jsonSchema/jsonValues.js";
import { PARAMETER_NOTATIONS, type ParameterNotation } from "../jsonSchema/parameters.js";
import { begunMarks, type Ending, freeOfMarks, freeTextBefore, freeTextUpTo, markExpr, without } from "./marks.js";

type Fields = Readonly<Record<string, unknown>>;

export interface StructuralTagOptions {
  /** Objects that declare properties have no others unless they say so. */
  closed: boolean;
  /** Properties need not come in the order in which schemas declare them. */
  anyOrder?: boolean;
  /** Special tokens of the vocabulary by their text: a mark that is one is that token. */
  specialTokens: ReadonlyMap<string, number>;
}

/** A part from mark to mark; what comes after its beginning is compiled already. */
interface Tag {
  begin: string;
  rest: Expr;
}

const NO_ENDING: Ending = { marks: [], mark: "" };

const MAX_DEPTH = 60;
/** Steps of work that a part comes to. */
const PART_COST = 1000;

/** What a part of each type may say. Anything else would go unheeded, so it is refused. */
const FIELDS: ReadonlyMap<unknown, readonly string[]> = new Map([
  ["json_schema", ["json_schema", "style"]],
  ["const_string", ["value"]],
  ["regex", ["pattern", "excludes"]],
  ["grammar", ["grammar"]],
  ["any_text", ["excludes", "max_chars"]],
  ["sequence", ["elements"]],
  ["or", ["elements"]],
  ["optional", ["content"]],
  ["star", ["content"]],
  ["plus", ["content"]],
  ["repeat", ["content", "min", "max"]],
  ["tag", ["begin", "content", "end"]],
  ["triggered_tags", ["triggers", "tags", "excludes", "at_least_one", "stop_after_first"]],
  ["tags_with_separator", ["tags", "separator", "at_least_one", "stop_after_first"]],
]);

/** @throws GrammarError naming the field at fault. */
export function structuralTagToExpr(json: JsonRules, tag: unknown, options: StructuralTagOptions): Expr {
  return new TagCompiler(json, options).compile(fieldsOf(tag));
}

class TagCompiler {
  /** Of all parts in that style. */
  private gemma4: JsonRules | null = null;

  constructor(
    private readonly json: JsonRules,
    private readonly options: StructuralTagOptions,
  ) {}

  compile(tag: Fields): Expr {
    if (tag.type !== undefined && tag.type !== "structural_tag") {
      throw new GrammarError('must be "structural_tag"', ["type"]);
    }
    if (tag.format !== undefined && tag.structures !== undefined) {
      throw new GrammarError('has both "format" and "structures"');
    }
    if (tag.format !== undefined) return within(["format"], () => this.format(tag.format, NO_ENDING, 0));
    if (tag.structures === undefined) throw new GrammarError('needs "format", or "structures" and "triggers"');
    const tags = listOf(tag, "structures").map((one, i) =>
      within(["structures", String(i)], (): Tag => {
        const structure = fieldsOf(one);
        const content = within(["schema"], () => this.schema(structure.schema));
        return { begin: textOf(structure, "begin"), rest: seq(content, this.mark(textOf(structure, "end"))) };
      }),
    );
    const rules = { excludes: [], atLeastOne: false, onlyOne: false };
    return this.triggered(tags, triggersOf(tag, tags), rules, NO_ENDING);
  }

  /** A part; free text inside it holds none of the marks that end what it stands in. */
  private format(value: unknown, ending: Ending, depth: number): Expr {
    if (depth > MAX_DEPTH) throw new GrammarError(`is nested more than ${MAX_DEPTH} levels deep`);
    spend(PART_COST);
    const fields = fieldsOf(value);
    const known = FIELDS.get(fields.type);
    if (known === undefined) throw new GrammarError(`"${String(fields.type)}" is not supported`, ["type"]);
    checkFields(fields, known);
    switch (fields.type) {
      case "json_schema":
        return this.inStyle(fields);
      case "const_string":
        return this.mark(textOf(fields, "value"));
      case "regex":
        return within(["pattern"], () => without(regexToExpr(textOf(fields, "pattern", [])), excludesOf(fields)));
      case "grammar":
        return this.grammar(fields);
      case "any_text":
        return this.anyText(fields, ending);
      case "sequence":
        return seq(...this.elements(fields, ending, depth, inside(ending)));
      case "or":
        return alt(...this.elements(fields, ending, depth));
      case "tag":
        return this.enclosed(this.tag(fields, ending, depth));
      case "triggered_tags": {
        const tags = this.tags(fields, ending, depth);
        const rules = { excludes: excludesOf(fields), ...countsOf(fields) };
        return this.triggered(tags, triggersOf(fields, tags), rules, ending);
      }
      case "tags_with_separator":
        return this.separated(fields, ending, depth);
      default:
        return this.repeated(fields, ending, depth);
    }
  }

  private anyText(fields: Fields, ending: Ending): Expr {
    const free = freeTextBefore(ending, excludesOf(fields), this.options.specialTokens);
    if (fields.max_chars === undefined || fields.max_chars === null) return free;
    return and(free, repeat(ANY_CHARACTER, 0, countOf(fields, "max_chars", 0)));
  }

  private repeated(fields: Fields, ending: Ending, depth: number): Expr {
    const contentBefore = (ahead: Ending) => within(["content"], () => this.format(fields.content, ahead, depth + 1));
    const last = contentBefore(ending);
    if (fields.type === "optional") return optional(last);
    const min = fields.type === "repeat" ? countOf(fields, "min", 0) : fields.type === "plus" ? 1 : 0;
    const max = fields.type === "repeat" ? countOf(fields, "max", -1) : -1;
    if (max !== -1 && max < min) throw new GrammarError("must be -1 or at least min", ["max"]);
    if (max === 0 || !this.completesMark(ending)) return repeat(last, min, max);
    const before = repeat(contentBefore(inside(ending)), Math.max(0, min - 1), max === -1 ? -1 : max - 1);
    return min === 0 ? optional(seq(before, last)) : seq(before, last);
  }

  private schema(schema: unknown, more: Partial<JsonSchemaOptions> = {}, json = this.json): Expr {
    const { closed, anyOrder } = this.options;
    return jsonSchemaToExpr(json, schema, { closed, ...(anyOrder && { anyOrder }), ...more });
  }

  private inStyle({ style = "json", json_schema }: Fields): Expr {
    if (style === "json") return within(["json_schema"], () => this.schema(json_schema));
    if (style === "json_arguments") return within(["json_schema"], () => this.schema(json_schema, { isObject: true }));
    if (style === "gemma4") {
      this.gemma4 ??= this.json.with(gemma4Values((literal) => this.mark(literal)));
      return within(["json_schema"], () => this.schema(json_schema, { isObject: true }, this.gemma4!));
    }
    if (typeof style !== "string" || !Object.hasOwn(PARAMETER_NOTATIONS, style)) {
      throw new GrammarError(`the style "${String(style)}" is not supported`, ["style"]);
    }
    const parameters: ParameterNotation = PARAMETER_NOTATIONS[style as keyof typeof PARAMETER_NOTATIONS];
    const json = parameters.values === null ? this.json : this.json.with(parameters.values);
    return within(["json_schema"], () => this.schema(json_schema, { parameters }, json));
  }

  private grammar(fields: Fields): Expr {
    return within(["grammar"], () => {
      const { rules, start } = ebnfToExpr(textOf(fields, "grammar", []));
      return this.json.rules.adopt(rules.finish(start));
    });
  }

  /** Before the next element's own beginning free text goes on; only the last element meets the marks outside. */
  private elements(fields: Fields, ending: Ending, depth: number, before: Ending = ending): Expr[] {
    const all = listOf(fields, "elements");
    return all.map((element, i) =>
      within(["elements", String(i)], () => this.format(element, i < all.length - 1 ? before : ending, depth + 1)),
    );
  }

  private tags(fields: Fields, ending: Ending, depth: number): Tag[] {
    return listOf(fields, "tags").map((one, i) =>
      within(["tags", String(i)], () => this.tag(fieldsOf(one), ending, depth + 1)),
    );
  }

  private tag(fields: Fields, ending: Ending, depth: number): Tag {
    if (fields.type !== undefined && fields.type !== "tag") throw new GrammarError('must be "tag"', ["type"]);
    checkFields(fields, FIELDS.get("tag")!);
    const own = Array.isArray(fields.end) && fields.end.length > 0 ? textsOf(fields, "end") : [textOf(fields, "end")];
    const marks = own.includes("") ? [...own, ...ending.marks] : own;
    // Ends before which free text may end alike have one content.
    const alike = new Map<string, { ahead: Ending; ends: string[] }>();
    for (const end of own) {
      const ahead = { marks, mark: end === "" ? ending.mark : end };
      const key = JSON.stringify(begunMarks(ahead, this.options.specialTokens).sort());
      const known = alike.get(key);
      if (known === undefined) alike.set(key, { ahead, ends: [end] });
      else known.ends.push(end);
    }
    const rest = [...alike.values()].map(({ ahead, ends }) => {
      const content = within(["content"], () => this.format(fields.content, ahead, depth + 1));
      return seq(content, alt(...ends.map((end) => this.mark(end))));
    });
    return { begin: textOf(fields, "begin"), rest: alt(...rest) };
  }

  /** A tag of whose beginning `begun` has been read. */
  private enclosed(tag: Tag, begun = 0): Expr {
    return seq(this.mark(tag.begin.slice(begun)), tag.rest);
  }

  /**
   * Free text; where a trigger comes up, one of the tags that begin with it must go on. Where there must be at least
   * one, the first one comes before all text.
   */
  private triggered(
    tags: readonly Tag[],
    triggers: readonly string[],
    rules: { excludes: readonly string[]; atLeastOne: boolean; onlyOne: boolean },
    ending: Ending,
  ): Expr {
    const { specialTokens } = this.options;
    const marks = freeOfMarks([...triggers, ...rules.excludes, ...ending.marks]);
    const parts = triggers.map((trigger) => {
      const begun = tags.filter((tag) => tag.begin.startsWith(trigger));
      const rest = begun.map((tag) => this.enclosed(tag, trigger.length));
      return seq(freeTextUpTo(trigger, specialTokens, marks), alt(...rest));
    });
    const one = this.json.rules.add(alt(...parts));
    const isAnywhere = !this.completesMark(ending);
    const free = isAnywhere
      ? marks.everywhere
      : freeTextBefore(ending, [...triggers, ...rules.excludes], specialTokens);
    if (!rules.atLeastOne) return rules.onlyOne ? alt(free, one) : seq(repeat(one, 0), free);
    const first = this.json.rules.add(alt(...tags.map((tag) => this.enclosed(tag))));
    return rules.onlyOne ? first : seq(first, repeat(one, 0), free);
  }

  private separated(fields: Fields, ending: Ending, depth: number): Expr {
    const oneBefore = (ahead: Ending) =>
      this.json.rules.add(alt(...this.tags(fields, ahead, depth).map((tag) => this.enclosed(tag))));
    const { atLeastOne, onlyOne } = countsOf(fields);
    const separator = this.mark(textOf(fields, "separator"));
    const last = oneBefore(ending);
    let all = last;
    if (!onlyOne) {
      const before = this.completesMark(ending) ? oneBefore(inside(ending)) : last;
      all = seq(repeat(seq(before, separator), 0), last);
    }
    return atLeastOne ? all : optional(all);
  }

  /** Whether free text right before the ending must not end in just anything. */
  private completesMark(ending: Ending): boolean {
    return begunMarks(ending, this.options.specialTokens).length > 0;
  }

  private mark(literal: string): Expr {
    return markExpr(literal, this.options.specialTokens);
  }
}

/** For what does not stand right before the ending. */
function inside({ marks }: Ending): Ending {
  return { marks, mark: "" };
}

function fieldsOf(value: unknown): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw new GrammarError("must be an object");
}

function checkFields(fields: Fields, known: readonly string[]): void {
  for (const [name, value] of Object.entries(fields)) {
    if (name === "type" || known.includes(name) || value === undefined || value === null || value === false) continue;
    throw new GrammarError("is not supported", [name]);
  }
}

function listOf(fields: Fields, name: string): readonly unknown[] {
  const value = fields[name];
  if (Array.isArray(value) && value.length > 0) return value;
  throw new GrammarError("must be a list with at least one entry", [name]);
}

function textOf(fields: Fields, name: string, path: readonly string[] = [name]): string {
  const value = fields[name];
  if (typeof value === "string") return value;
  throw new GrammarError("must be a string", path);
}

function excludesOf(fields: Fields): readonly string[] {
  if (fields.excludes === undefined || fields.excludes === null) return [];
  return textsOf(fields, "excludes");
}

function textsOf(fields: Fields, name: string): readonly string[] {
  const value = fields[name];
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value as string[];
  throw new GrammarError("must be a list of strings", [name]);
}

/** Each tag must begin with one of them, or nothing would bring it about. */
function triggersOf(fields: Fields, tags: readonly Tag[]): readonly string[] {
  const triggers = textsOf(fields, "triggers");
  if (triggers.length === 0 || triggers.includes("")) throw new GrammarError("must hold texts", ["triggers"]);
  const stray = tags.find((tag) => !triggers.some((trigger) => tag.begin.startsWith(trigger)));
  if (stray !== undefined) throw new GrammarError(`none is the beginning of "${stray.begin}"`, ["triggers"]);
  return triggers;
}

function countsOf(fields: Fields): { atLeastOne: boolean; onlyOne: boolean } {
  return { atLeastOne: isSet(fields, "at_least_one"), onlyOne: isSet(fields, "stop_after_first") };
}

function isSet(fields: Fields, name: string): boolean {
  const value = fields[name] ?? false;
  if (typeof value === "boolean") return value;
  throw new GrammarError("must be true or false", [name]);
}

function countOf(fields: Fields, name: string, min: number): number {
  const given = fields[name];
  const value = given instanceof Number ? given.valueOf() : given;
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= MAX_REPETITIONS) {
    return value as number;
  }
  throw new GrammarError(`must be a whole number from ${min} to ${MAX_REPETITIONS}`, [name]);
}
