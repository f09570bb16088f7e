// `call:name{key:<|"|>text<|"|>,n:1,list:[true,{a:null}]}`: Gemma 4. Texts stand between marks as they are, names without.

import { GEMMA4_QUOTE } from "../../gemma4Quote.js";
import { MAX_DEPTH, ProgramReader, type Reading } from "./callReader.js";
import { parsedString } from "./jsonCallReader.js";
import { constantJson } from "./pythonCallReader.js";
import { heldLength } from "./tagSearch.js";

export const GEMMA4_CALL = "call:";

/** The first half of a character without its second one. */
const LONE_HALF = /[\ud800-\udbff](?![\udc00-\udfff])/;

/** Names and texts may stand in JSON's quotation marks, and texts that are one word or more in none: models write both at times. */
export class Gemma4CallReader extends ProgramReader {
  private readonly quote: string;

  /** `sign`: as of `createToolParser`; no other token than the quotation mark stands in a call. */
  constructor(private readonly sign: string) {
    super();
    this.quote = sign + GEMMA4_QUOTE;
  }

  protected *read(): Reading {
    yield* this.expect(GEMMA4_CALL);
    yield* this.skipSpace();
    const name = yield* this.word(/[^\s{}[\]<>"]/);
    yield* this.skipSpace();
    if (name === "" || !this.at("{")) this.fail();
    this.name = name;
    yield* this.object(0);
  }

  private object(depth: number): Reading {
    return this.members("{", "}", () => this.member(depth + 1));
  }

  private *member(depth: number): Reading {
    yield* this.memberName();
    this.give(": ");
    yield* this.skipSpace();
    yield* this.value(depth);
  }

  /** With the colon behind it. */
  private *memberName(): Reading {
    if (this.at(this.quote[0]!)) yield* this.markedText();
    else if (this.at('"')) yield* this.quotedText();
    else {
      const name = (yield* this.word(/[^:,{}[\]<"\n]/)).trimEnd();
      if (name === "") this.fail();
      this.give(JSON.stringify(this.textOf(name)));
    }
    yield* this.skipSpace();
    yield* this.expect(":");
  }

  private *value(depth: number): Reading {
    if (depth > MAX_DEPTH) this.fail();
    if (this.at(this.quote[0]!)) yield* this.markedText();
    else if (this.at('"')) yield* this.quotedText();
    else if (this.at("{") || this.at("[")) {
      yield* this.at("{") ? this.object(depth) : this.members("[", "]", () => this.value(depth + 1));
      yield* this.advance();
    } else {
      const word = (yield* this.word(/[^,{}[\]<]/)).trimEnd();
      if (word === "") this.fail();
      this.give(constantJson(word) ?? JSON.stringify(this.textOf(word)));
    }
  }

  private *markedText(): Reading {
    const { quote } = this;
    yield* this.expect(quote);
    this.give('"');
    for (let held = this.current; held !== quote; held += this.current) {
      const certain = held.length - heldLength(held, [quote]);
      this.giveText(held.startsWith(this.sign) ? this.textOf(held.slice(0, certain)) : held.slice(0, certain));
      held = held.slice(certain);
      yield* this.advance();
    }
    this.endText();
    this.give('"');
    yield* this.advance();
  }

  private *quotedText(): Reading {
    let text = "";
    do {
      const escapes = this.at("\\");
      text += this.current;
      yield* this.advance();
      if (!escapes) continue;
      text += this.current;
      yield* this.advance();
    } while (!this.at('"'));
    yield* this.advance();
    this.give(JSON.stringify(this.textOf(parsedString(`${text}"`) ?? text.slice(1))));
  }

  /** Without tokens. */
  private textOf(text: string): string {
    return this.sign !== "" && LONE_HALF.test(text) ? this.fail() : text;
  }
}
