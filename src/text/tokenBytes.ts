// Which bytes one token stands for, and how a row of tokens becomes text: the decoder of a tokenizer as plain data.

import { TokenizerError } from "./errors.js";
import { isObject, type JsonObject, type TokenizerFolder } from "./tokenizerFolder.js";
import { steps } from "./tokenizerLayout.js";

/**
 * How tokens join:
 * - `byteLevel`: every token is bytes, and the bytes of all tokens are read as UTF-8;
 * - `byteFallback`: every token is text, except `<0xE2>`, whose runs are read as UTF-8 or replaced byte by byte;
 * - `joined`: every token is text;
 * - `spaced`: tokens are texts with a space between two of them (a tokenizer without a decoder).
 */
export type Joining = "byteLevel" | "byteFallback" | "joined" | "spaced";

export interface DecoderLayout {
  joining: Joining;
  /** Replacements made in each token, in order (SentencePiece's "▁" to a space). */
  replacements: { from: string; to: string }[];
  /** Spaces dropped at the very start of the text, at most. */
  leadingSpaces: number;
  /** Whether the first token loses its own "▁" (Metaspace). */
  firstTokenUnmarked: string | null;
}

/** Reads tokenizer.json's `decoder`; throws TokenizerError naming a decoder that cannot be followed exactly. */
export function readDecoderLayout(folder: TokenizerFolder, file: string): DecoderLayout {
  const refuse = (what: string): never => {
    throw new TokenizerError(`decoder ${what} is not supported; convert the tokenizer to byte-level BPE`, file);
  };
  const layout: DecoderLayout = {
    joining: "joined",
    replacements: [],
    leadingSpaces: 0,
    firstTokenUnmarked: null,
  };
  const decoder = folder.tokenizer.decoder;
  if (decoder === null || decoder === undefined) return { ...layout, joining: "spaced" };
  if (isObject(decoder) && decoder.type === "ByteLevel") return { ...layout, joining: "byteLevel" };
  let fused = false;
  for (const step of steps(decoder, "decoders")) {
    if (step.type === "Replace" && !fused) layout.replacements.push(replacement(step, refuse));
    else if (step.type === "Fuse") fused = true;
    else if (step.type === "Strip" && fused && step.content === " " && (step.stop ?? 0) === 0) {
      layout.leadingSpaces = Number(step.start ?? 0);
    } else if (step.type === "Metaspace" && !fused) {
      const mark = typeof step.replacement === "string" ? step.replacement : "▁";
      layout.replacements.push({ from: mark, to: " " });
      if (step.prepend_scheme !== "never") layout.firstTokenUnmarked = mark;
    } else if (step.type === "ByteFallback" && !fused) layout.joining = "byteFallback";
    else refuse(JSON.stringify(step.type));
  }
  return layout;
}

function replacement(step: JsonObject, refuse: (what: string) => never): { from: string; to: string } {
  const from = isObject(step.pattern) ? step.pattern.String : undefined;
  if (typeof from !== "string" || typeof step.content !== "string") return refuse("Replace with a regex");
  return { from, to: step.content };
}

/** GPT-2's table: printable Latin-1 characters stand for themselves, the other 68 bytes follow from U+0100. */
function byteOfCharacter(): Map<string, number> {
  const table = new Map<string, number>();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    table.set(String.fromCharCode(printable ? byte : next++), byte);
  }
  return table;
}

const BYTE_OF_CHARACTER = byteOfCharacter();
const UTF8 = new TextEncoder();

/** The bytes of a byte-level token; a text with a character outside the table stands for its own UTF-8. */
function byteLevelBytes(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  let length = 0;
  for (const character of token) {
    const byte = BYTE_OF_CHARACTER.get(character);
    if (byte === undefined) return UTF8.encode(token);
    bytes[length++] = byte;
  }
  return bytes.subarray(0, length);
}

/** The byte of `<0xE2>`, or null for any other token. */
export function fallbackByte(token: string): number | null {
  const match = /^<0x([0-9A-Fa-f]{2})>$/.exec(token);
  return match === null ? null : Number.parseInt(match[1]!, 16);
}

/** A token's text in a layout whose tokens are texts, with the replacements made. */
export function plainText(token: string, layout: DecoderLayout): string {
  return layout.replacements.reduce((text, { from, to }) => text.replaceAll(from, to), token);
}

/** The bytes of the token's own text, whatever stands beside it. */
export function bytesOfToken(token: string, layout: DecoderLayout): Uint8Array {
  if (layout.joining === "byteLevel") return byteLevelBytes(token);
  const byte = layout.joining === "byteFallback" ? fallbackByte(token) : null;
  return byte === null ? UTF8.encode(plainText(token, layout)) : Uint8Array.of(byte);
}

// Where a character is still open at the end of bytes.

/**
 * How many bytes at the end begin a character that more bytes may complete. A decoder would hold these back, and show
 * everything before them (The Encoding Standard, section 8.1.1: the second byte's range depends on the first).
 */
export function openBytes(bytes: Uint8Array): number {
  const end = bytes.length;
  for (let back = 1; back <= Math.min(3, end); back++) {
    const byte = bytes[end - back]!;
    if (byte >= 0x80 && byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    if (byte < 0xc2 || byte > 0xf4 || back >= length) return 0;
    return back === 1 || follows(byte, bytes[end - back + 1]!) ? back : 0;
  }
  return 0;
}

/** Whether `second`, a continuation byte, may stand behind `first`: no overlong forms, surrogates or values past U+10FFFF. */
function follows(first: number, second: number): boolean {
  if (first === 0xe0) return second >= 0xa0;
  if (first === 0xed) return second < 0xa0;
  if (first === 0xf0) return second >= 0x90;
  if (first === 0xf4) return second < 0x90;
  return true;
}
