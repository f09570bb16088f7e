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
