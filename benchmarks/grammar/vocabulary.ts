/** A vocabulary of realistic size and content: the first merges of a published tokenizer where its package is installed. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { Dice } from "./schemas.js";

/** Token bytes by id; the last one ends an output. */
export interface BenchmarkVocabulary {
  name: string;
  tokens: Uint8Array[];
  end: number;
}

/** `peers`: a folder whose node_modules may hold js-tiktoken. */
export async function benchmarkVocabulary(peers: string | undefined, size: number): Promise<BenchmarkVocabulary> {
  const published = peers === undefined ? null : await publishedTokens(peers, size - 1);
  const tokens = published ?? madeUpTokens(size - 1);
  tokens.push(Buffer.from("<|end|>"));
  const name = published === null ? "made up" : "the first merges of o200k_base";
  return { name, tokens, end: tokens.length - 1 };
}

async function publishedTokens(peers: string, count: number): Promise<Uint8Array[] | null> {
  let file: string;
  try {
    file = createRequire(join(peers, "package.json")).resolve("js-tiktoken/ranks/o200k_base");
  } catch {
    return null;
  }
  const { default: ranks } = (await import(file)) as { default: { bpe_ranks: string } };
  // Lines of a mark, the first rank, and the tokens in base64.
  const lines = ranks.bpe_ranks.split("\n").filter((line) => line !== "");
  const tokens = lines.flatMap((line) => line.split(" ").slice(2));
  return tokens.slice(0, count).map((token) => new Uint8Array(Buffer.from(token, "base64")));
}

function madeUpTokens(count: number): Uint8Array[] {
  const dice = new Dice(1);
  const letters = "eeeetttaaaooiinnsshhrrddllcumwfgypbvkjxqz";
  const tokens: Uint8Array[] = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  const seen = new Set<string>();
  while (tokens.length < count) {
    const mark = dice.below(20);
    let token = dice.below(3) === 0 ? " " : "";
    for (let n = 1 + dice.below(9); n > 0; n--) {
      token +=
        mark < 15
          ? letters[dice.below(letters.length)]!
          : mark < 17
            ? "東京日本語のをにé"[dice.below(9)]!
            : ' ",:{}[]\\/()=;\n'[dice.below(15)]!;
    }
    if (seen.has(token)) continue;
    seen.add(token);
    tokens.push(Buffer.from(token));
  }
  return tokens;
}

/** Ids of `text`, always the longest token that fits. */
export class LongestMatch {
  private readonly ids = new Map<string, number>();
  private longest = 0;
  constructor(tokens: readonly Uint8Array[]) {
    for (const [id, token] of tokens.entries()) {
      this.ids.set(Buffer.from(token).toString("latin1"), id);
      this.longest = Math.max(this.longest, token.length);
    }
  }
  encode(text: string): number[] {
    const bytes = Buffer.from(text).toString("latin1");
    const out: number[] = [];
    for (let at = 0; at < bytes.length; ) {
      let length = Math.min(this.longest, bytes.length - at);
      while (!this.ids.has(bytes.slice(at, at + length))) length--;
      out.push(this.ids.get(bytes.slice(at, at + length))!);
      at += length;
    }
    return out;
  }
}
