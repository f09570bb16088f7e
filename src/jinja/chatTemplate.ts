// A chat template: Jinja2 source in, rendered text out.

import { createHash } from "node:crypto";
import nunjucks from "nunjucks";
import { DEFAULT_LIMITS, type TemplateLimits, withBudget } from "./budget.js";
import { TemplateError } from "./errors.js";
import { fromJavaScript, type TemplateInput } from "./fromJavaScript.js";
import { globalFunctions } from "./globals.js";
import { type Program, programOf } from "./program.js";
import { Rendering } from "./rendering.js";
import { parseTemplate } from "./statementParser.js";
import { subjectsOf, type TemplateSubjects } from "./templateSubjects.js";

export interface RenderOptions {
  /** What `strftime_now` shows. Default: now. */
  now?: Date;
  limits?: Partial<TemplateLimits>;
}

/** Templates kept compiled; requests may bring their own, so the oldest go first. */
const CACHE_SIZE = 64;
const cache = new Map<string, ChatTemplate>();

/**
 * Compiles a template as transformers does: `trim_blocks` and `lstrip_blocks`, loop controls, `{% generation %}`,
 * `tojson`, `raise_exception`, `strftime_now`, and a sandbox that can change no input. Compiled templates are kept by
 * the hash of their source. Throws TemplateError of kind "syntax".
 */
export function compileChatTemplate(source: string): ChatTemplate {
  const hash = createHash("sha256").update(source).digest("base64");
  const template = cache.get(hash) ?? new ChatTemplate(source);
  cache.delete(hash);
  cache.set(hash, template);
  if (cache.size > CACHE_SIZE) cache.delete(cache.keys().next().value!);
  return template;
}

export class ChatTemplate {
  /** Whether the template iterates over a message's content, and so wants a list of typed parts. */
  readonly usesContentParts: boolean;

  private readonly program: Program;
  private readonly units: nunjucks.Template[];
  private readonly subjects: TemplateSubjects;

  constructor(readonly source: string) {
    const statements = parseTemplate(source);
    this.subjects = subjectsOf(statements);
    this.program = programOf(statements);
    this.units = this.program.units.map(compiledUnit);
    this.usesContentParts = this.subjects.iteratesContent;
  }

  /** Whether the template's code has `word` as a variable, attribute or key, or as a whole text ("developer"). */
  mentions(word: string): boolean {
    return this.subjects.words.has(word);
  }

  /**
   * The text for `variables`. Throws TemplateError: "raised" with the template's own words, "runtime" for what Python
   * would refuse, "budget" for a template that asks for too much.
   */
  render(variables: Record<string, TemplateInput>, options: RenderOptions = {}): string {
    return withBudget({ ...DEFAULT_LIMITS, ...options.limits }, () => {
      const values = new Map(
        Object.entries(variables)
          .filter(([, value]) => value !== undefined)
          .map(([name, value]) => [name, fromJavaScript(value, name)]),
      );
      const globals = globalFunctions(options.now ?? new Date());
      const rendering = new Rendering(this.program, (unit, calls) => this.units[unit]!.render(calls), values, globals);
      return rendering.run();
    });
  }
}

/** A unit is well-formed by construction; what can fail is nunjucks' recursion, in thousands of `break` say. */
function compiledUnit(unit: string): nunjucks.Template {
  try {
    return new nunjucks.Template(unit, ENVIRONMENT, undefined, true);
  } catch {
    throw new TemplateError("budget", "the template nests too deeply");
  }
}

const ENVIRONMENT = new nunjucks.Environment(null, { autoescape: false });
