/**
 * Measures @mlc-ai/web-xgrammar in a process of its own, because some schemas end it:
 *
 *   tsx benchmarks/grammar/peer.ts <folder with node_modules> <vocabulary size> <schemas> <first schema>
 *
 * Prints a line of JSON after preparing the vocabulary and after each schema.
 */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { schemaCases } from "./schemas.js";
import { benchmarkVocabulary, LongestMatch } from "./vocabulary.js";

interface Disposable {
  dispose(): void;
}
interface PeerModule {
  TokenizerInfo: {
    createTokenizerInfo(
      tokens: string[],
      type: string,
      prependSpace: boolean,
      size: number,
      stops: number[],
    ): Promise<Disposable>;
  };
  GrammarCompiler: {
    createGrammarCompiler(
      info: Disposable,
      cached: boolean,
    ): Promise<Disposable & { compileJSONSchema(schema: string, anySpace: boolean): Promise<Disposable> }>;
  };
  GrammarMatcher: {
    createGrammarMatcher(
      grammar: Disposable,
    ): Promise<Disposable & { acceptToken(id: number): boolean; getNextTokenBitmask(): Promise<Int32Array> }>;
  };
}

/** Bytes as GPT-2's tokenizer files write them. */
function byteLevel(token: Uint8Array): string {
  const isShown = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  const hidden = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => !isShown(byte));
  return [...token].map((b) => String.fromCodePoint(isShown(b) ? b : 256 + hidden.indexOf(b))).join("");
}

const [folder = "", size = "0", schemas = "0", first = "0"] = process.argv.slice(2);
const file = createRequire(join(folder, "package.json")).resolve("@mlc-ai/web-xgrammar");
// Loaded as an ES module it reads the variables of a CommonJS one, and leaves what it exports in a global one.
Object.assign(globalThis, { require: createRequire(file), __filename: file, __dirname: dirname(file) });
await import(file);
const peer = (globalThis as unknown as { xgrammar: PeerModule }).xgrammar;
const vocabulary = await benchmarkVocabulary(folder, Number(size));
const matching = new LongestMatch(vocabulary.tokens.slice(0, -1));
const encoded = vocabulary.tokens.map(byteLevel);
const report = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

let began = performance.now();
const info = await peer.TokenizerInfo.createTokenizerInfo(encoded, "byte_level", false, encoded.length, [
  vocabulary.end,
]);
const compiler = await peer.GrammarCompiler.createGrammarCompiler(info, false);
report({ prepare: performance.now() - began });
for (const [number, { schema, texts }] of schemaCases(Number(schemas)).entries()) {
  if (number < Number(first)) continue;
  try {
    began = performance.now();
    const compiled = await compiler.compileJSONSchema(JSON.stringify(schema), true);
    const compile = performance.now() - began;
    const mask: number[] = [];
    let wrong = 0;
    for (const text of texts) {
      const matcher = await peer.GrammarMatcher.createGrammarMatcher(compiled);
      const ids = [...matching.encode(text), vocabulary.end];
      for (const id of ids) {
        began = performance.now();
        await matcher.getNextTokenBitmask();
        mask.push(performance.now() - began);
        if (!matcher.acceptToken(id)) {
          wrong++;
          break;
        }
      }
      matcher.dispose();
    }
    compiled.dispose();
    report({ number, compile, mask, wrong });
  } catch {
    report({ number, refused: true });
  }
}
process.exit(0);
