// Lark's notation: rules in lower case, terminals in upper case, `%ignore` between terminals.

import { anyCase, EbnfScanner } from "./ebnfScanner.js";
import { GrammarError } from "./grammarError.js";
import { alt, chars, EMPTY, type Expr, optional, repeat, seq, text } from "./ir.js";
import { NamedRules } from "./namedRules.js";
import { regexToExpr } from "./regex.js";
import type { RuleBook } from "./ruleBook.js";

const SPACE = /(?:[ \t\r]|(?:\/\/|#)[^\n]*|\\\n)+/y;
const BLANK = /(?:[ \t\r\n]|(?:\/\/|#)[^\n]*)+/y;
const NEXT_ALTERNATIVE = /(?:[ \t\r\n]|(?:\/\/|#)[^\n]*)*\|/y;
const NAME = /_?[A-Za-z][A-Za-z0-9_]*|_[A-Za-z0-9_]+/y;
const HEAD = /[?!]{0,2}(?:_?[A-Za-z][A-Za-z0-9_]*|_[A-Za-z0-9_]+)/y;

/** Terminals of Lark's module "common". */
const COMMON: ReadonlyMap<string, string> = new Map([
  ["DIGIT", "[0-9]"],
  ["HEXDIGIT", "[a-fA-F0-9]"],
  ["INT", "[0-9]+"],
  ["SIGNED_INT", "[+-]?[0-9]+"],
  ["DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"],
  ["FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"],
  ["SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"],
  ["NUMBER", "[0-9]+(?:[eE][+-]?[0-9]+)?|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"],
  ["SIGNED_NUMBER", "[+-]?(?:[0-9]+(?:[eE][+-]?[0-9]+)?|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"],
  ["ESCAPED_STRING", '"(?:[^"\\\\\\n]|\\\\[^\\n])*"'],
  ["LCASE_LETTER", "[a-z]"],
  ["UCASE_LETTER", "[A-Z]"],
  ["LETTER", "[A-Za-z]"],
  ["WORD", "[A-Za-z]+"],
  ["CNAME", "[_A-Za-z][_A-Za-z0-9]*"],
  ["WS_INLINE", "[ \\t]+"],
  ["WS", "[ \\t\\f\\r\\n]+"],
  ["CR", "\\r"],
  ["LF", "\\n"],
  ["NEWLINE", "(?:\\r?\\n)+"],
  ["SH_COMMENT", "#[^\\n]*"],
  ["CPP_COMMENT", "//[^\\n]*"],
  ["C_COMMENT", "/\\*[^*]*\\*+(?:[^/*][^*]*\\*+)*/"],
  ["SQL_COMMENT", "--[^\\n]*"],
]);

export function readLark(source: string): { rules: RuleBook; start: Expr } {
  const rules = new NamedRules();
  const reader = new LarkReader(source, rules);
  reader.read();
  if (!rules.has("start")) throw new GrammarError('has no rule "start"');
  rules.finish();
  return { rules: rules.rules, start: seq(reader.betweenTerminals, rules.refer("start", 1)) };
}

class LarkReader {
  private readonly scanner: EbnfScanner;
  private readonly ignored: Expr[] = [];
  /** What may stand after each terminal of a rule. */
  private readonly ignoring: boolean;
  readonly betweenTerminals: Expr;
  /** Terminals are made of characters, with nothing ignored between. */
  private inTerminal = false;

  constructor(
    source: string,
    private readonly rules: NamedRules,
  ) {
    this.scanner = new EbnfScanner(source);
    this.ignoring = /^[ \t]*%ignore\b/m.test(source);
    this.betweenTerminals = this.ignoring ? rules.refer("%ignore", 1) : EMPTY;
  }

  read(): void {
    const { scanner } = this;
    for (scanner.match(BLANK); !scanner.atEnd; scanner.match(BLANK)) {
      if (scanner.takes("%")) this.directive();
      else this.definition();
    }
    if (this.ignoring) this.rules.define("%ignore", repeat(alt(...this.ignored), 0), 1);
  }

  private directive(): void {
    const { scanner } = this;
    const { line } = scanner;
    const directive = scanner.match(/[a-z]+/y);
    scanner.match(SPACE);
    if (directive === "ignore") {
      this.inTerminal = true;
      this.ignored.push(this.alternatives());
      this.inTerminal = false;
      return;
    }
    if (directive !== "import") throw scanner.error(`%${directive ?? ""} is not supported`);
    const written = scanner
      .match(/[^\n]*/y)!
      .replace(/(?:\/\/|#).*$/, "")
      .trim();
    const many = /^common\s*\(([^)]*)\)$/.exec(written);
    const one = /^common\.(\w+)(?:\s*->\s*(\w+))?$/.exec(written);
    const imports = many
      ? many[1]!.split(",").map((name) => [name.trim(), name.trim()])
      : one
        ? [[one[1]!, one[2] ?? one[1]!]]
        : null;
    if (imports === null) throw new GrammarError(`line ${line}: only terminals of "common" can be imported`);
    for (const [from, name] of imports) {
      const pattern = COMMON.get(from!);
      if (pattern === undefined) throw new GrammarError(`line ${line}: "common" has no terminal ${from}`);
      this.rules.define(name!, regexToExpr(pattern), line);
    }
  }

  private definition(): void {
    const { scanner } = this;
    const { line } = scanner;
    const name = scanner.match(HEAD)?.replace(/^[?!]+/, "");
    if (name === undefined) throw scanner.error("a rule must begin here: name: ...");
    if (scanner.takes("{")) throw scanner.error("templates are not supported");
    scanner.match(/\.-?\d+/y);
    scanner.match(SPACE);
    if (!scanner.takes(":")) throw scanner.error('":" is missing after the name of a rule');
    this.inTerminal = isTerminal(name);
    const body = this.alternatives();
    this.inTerminal = false;
    scanner.match(SPACE);
    if (!scanner.atEnd && !scanner.looksAt(/\n/y)) {
      throw scanner.error(`"${scanner.source[scanner.at]}" cannot stand here`);
    }
    this.rules.define(name, body, line);
  }

  private alternatives(): Expr {
    const found = [this.sequence()];
    while (this.scanner.match(NEXT_ALTERNATIVE) !== null) found.push(this.sequence());
    return alt(...found);
  }

  private sequence(): Expr {
    const { scanner } = this;
    const items: Expr[] = [];
    for (scanner.match(SPACE); scanner.looksAt(/["(['/A-Za-z_]/y); scanner.match(SPACE)) items.push(this.item());
    if (scanner.match(/->[ \t]*/y) !== null && scanner.match(NAME) === null) throw scanner.error("-> needs a name");
    scanner.match(SPACE);
    return seq(...items);
  }

  private item(): Expr {
    const { scanner } = this;
    const item = this.atom();
    if (scanner.takes("*")) return scanner.repeated(item, 0, -1);
    if (scanner.takes("+")) return scanner.repeated(item, 1, -1);
    if (scanner.takes("?")) return scanner.repeated(item, 0, 1);
    const count = scanner.match(/[ \t]*~[ \t]*\d+(?:[ \t]*\.\.[ \t]*\d+)?/y);
    if (count === null) return item;
    const [min = 0, max = min] = count.match(/\d+/g)!.map(Number);
    return scanner.repeated(item, min, max);
  }

  private atom(): Expr {
    const { scanner } = this;
    if (scanner.takes("(")) return this.group(")");
    if (scanner.takes("[")) return optional(this.group("]"));
    if (scanner.takes('"')) return this.spaced(this.literal());
    if (scanner.takes("/")) return this.spaced(this.regex(scanner.regexText()));
    const { line } = scanner;
    const name = scanner.match(NAME);
    if (name === null) throw scanner.error(`"${scanner.source[scanner.at]}" cannot stand here`);
    if (scanner.takes("{")) throw scanner.error("templates are not supported");
    if (this.inTerminal && !isTerminal(name)) throw scanner.error(`the rule "${name}" cannot stand in a terminal`);
    const reference = this.rules.refer(name, line);
    return isTerminal(name) ? this.spaced(reference) : reference;
  }

  private group(close: string): Expr {
    const { scanner } = this;
    scanner.match(BLANK);
    const inner = scanner.nested(() => this.alternatives());
    scanner.match(BLANK);
    if (!scanner.takes(close)) throw scanner.error(`missing "${close}"`);
    return inner;
  }

  private literal(): Expr {
    const { scanner } = this;
    const content = this.quoted();
    if (scanner.match(/i(?![A-Za-z0-9_])/y) !== null) return anyCase(content);
    if (scanner.match(/[ \t]*\.\.[ \t]*"/y) === null) return text(content);
    const ends = [[...content], [...this.quoted()]];
    if (ends.some((end) => end.length !== 1)) throw scanner.error("a range goes from one character to one character");
    const [low, high] = ends.map(([end]) => end!.codePointAt(0)!) as [number, number];
    if (high < low) throw scanner.error("a range of characters is out of order");
    return chars([low, high]);
  }

  /** A string whose opening quote has been read. Other escapes than these stand for their backslash too, in Lark. */
  private quoted(): string {
    const { scanner } = this;
    const other = scanner.looksAt(/(?:[^"\\\n]|\\[\\"ntfrxuU])*\\[^\\"ntfrxuU]/y);
    if (other) throw scanner.error('of escapes, a string can have \\\\ \\" \\n \\t \\f \\r \\x \\u \\U');
    return scanner.quotedText('"');
  }

  private regex(written: string): Expr {
    const { scanner } = this;
    const flags = scanner.match(/[a-z]+/y);
    if (flags !== null) throw scanner.error(`flags of regular expressions ("${flags}") are not supported`);
    try {
      return regexToExpr(written);
    } catch (error) {
      throw error instanceof GrammarError ? scanner.error(error.message) : error;
    }
  }

  private spaced(terminal: Expr): Expr {
    return this.inTerminal ? terminal : seq(terminal, this.betweenTerminals);
  }
}

function isTerminal(name: string): boolean {
  return name === name.toUpperCase();
}
