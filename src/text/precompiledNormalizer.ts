// SentencePiece's normalizer: a table of texts and what replaces them, compiled into tokenizer.json, looked up as Hugging
// Face's Rust library does. Its JavaScript library has rules of its own instead.

import type { JsonObject } from "./tokenizerFolder.js";

/** What the library's normalizers have, as far as it is used here. */
interface Normalizer {
  config: JsonObject;
  normalize(text: string): string;
  /** Of a sequence. */
  normalizers?: (Normalizer | null)[];
}

/** Replaces the library's rules by those of the tables in `normalizer`. */
export function useCompiledTables(normalizer: unknown): void {
  const step = normalizer as Normalizer | null;
  for (const inner of step?.normalizers ?? []) useCompiledTables(inner);
  if (step?.config?.type !== "Precompiled") return;
  const table = new ReplacementTable(String(step.config.precompiled_charsmap ?? ""));
  step.normalize = (text) => table.normalize(text);
}

/** A grapheme of fewer bytes is looked up as a whole first. */
const MAX_WHOLE_GRAPHEME = 6;
/** Made when text asks for it: loading its data takes longer than all else that a start does here. */
let graphemes: Intl.Segmenter | undefined;
/** What is segmented at once, since the time for each grapheme grows with the text; what follows begins a grapheme. */
const PIECE = /.{1,512}[\p{M}\p{Join_Control}\n\uff9e\uff9f\u{e0020}-\u{e007f}]*/gsu;
/** Letters and signs each of which is a grapheme beside any other of them. */
const SINGLE = /^[\t\n -\u02ff\u0370-\u0482\u048a-\u052f\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]*$/;
const UTF8 = new TextEncoder();

/**
 * A number of bytes, a double-array trie of so many (four each a unit, little-endian), and the replacements, ended by zeros. A
 * unit holds a byte's label, where its children are, and whether it ends a text; then its first child is the replacement's place.
 */
class ReplacementTable {
  private readonly units: Uint32Array;
  private readonly replacements: Buffer;
  /** What stands for each character of ASCII. */
  private readonly ascii: readonly string[];

  constructor(base64: string) {
    const table = Buffer.from(base64, "base64");
    const size = table.length < 4 ? Number.NaN : table.readUInt32LE(0);
    if (!(size % 4 === 0 && 4 + size <= table.length)) throw new Error('"precompiled_charsmap" is not a table');
    this.units = Uint32Array.from({ length: size / 4 }, (_, index) => table.readUInt32LE(4 + 4 * index));
    this.replacements = table.subarray(4 + size);
    this.ascii = Array.from({ length: 128 }, (_, code) => this.normalized(String.fromCharCode(code)));
  }

  normalize(text: string): string {
    const parts: string[] = [];
    for (const piece of text.match(PIECE) ?? []) {
      if (SINGLE.test(piece)) {
        for (const character of piece) parts.push(this.ascii[character.charCodeAt(0)] ?? this.normalized(character));
      } else {
        graphemes ??= new Intl.Segmenter(undefined, { granularity: "grapheme" });
        for (const { segment } of graphemes.segment(piece)) parts.push(this.normalized(segment));
      }
    }
    return parts.join("");
  }

  private normalized(grapheme: string): string {
    const bytes = UTF8.encode(grapheme);
    const whole = bytes.length < MAX_WHOLE_GRAPHEME ? this.replacement(bytes) : null;
    if (whole !== null) return whole;
    return Array.from(grapheme, (character) => this.replacement(UTF8.encode(character)) ?? character).join("");
  }

  /** What stands for the shortest text of the table that `bytes` begin with: of all of them, also of what follows it. */
  private replacement(bytes: Uint8Array): string | null {
    const { units } = this;
    let place = childrenOf(units[0] ?? 0);
    for (const byte of bytes) {
      if (byte === 0) return null;
      place ^= byte;
      const unit = units[place] ?? 0;
      if ((unit & 0x800000ff) >>> 0 !== byte) return null;
      place ^= childrenOf(unit);
      if ((unit & 0x100) !== 0) return this.replacementAt((units[place] ?? 0) & 0x7fffffff);
    }
    return null;
  }

  private replacementAt(start: number): string {
    const end = this.replacements.indexOf(0, start);
    return this.replacements.toString("utf8", start, end < 0 ? undefined : end);
  }
}

/** The offset to a unit's children, to be combined with its place by exclusive or. */
function childrenOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}
