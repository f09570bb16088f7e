// `name[ARGS]{...}`, `name[CALL_ID]id[ARGS]{...}` or `name{...}`: a name, and its arguments as JSON; or these alone, of a function
// that is known already.

import { isJson } from "../../json.js";
import { ProgramReader, type Reading } from "./callReader.js";

export class NamedCallReader extends ProgramReader {
  private json = "";

  /** `known`: the name, where only the arguments are to be read. */
  constructor(private readonly known: string | null = null) {
    super();
  }

  override isSound(): boolean {
    return isJson(this.json);
  }

  protected *read(): Reading {
    const name = this.known ?? (yield* this.nameAndMarks());
    yield* this.skipSpace();
    if (!this.at("{")) this.fail();
    this.name = name;
    yield* this.object();
  }

  private *nameAndMarks(): Reading<string> {
    const name = yield* this.word(/[^\s[\]{}"]/);
    if (name === "") this.fail();
    yield* this.skipSpace();
    while (this.at("[")) {
      yield* this.advance();
      const mark = yield* this.word(/[A-Z_]/);
      yield* this.expect("]");
      if (mark === "CALL_ID") yield* this.word(/[^\s[{]/);
      else if (mark !== "ARGS") this.fail();
      yield* this.skipSpace();
    }
    return name;
  }

  /** Ends at its last character. */
  private *object(): Reading {
    let depth = 0;
    let inString = false;
    let escaped = false;
    for (;;) {
      const character = this.current;
      this.give(character);
      this.json += character;
      if (escaped) escaped = false;
      else if (character === "\\") escaped = true;
      else if (character === '"') inString = !inString;
      else if (!inString && /[{[]/.test(character)) depth++;
      else if (!inString && /[}\]]/.test(character)) depth--;
      if (depth === 0) return;
      yield* this.advance();
    }
  }
}
