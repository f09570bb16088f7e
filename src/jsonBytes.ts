// What readers of JSON bytes have in common.

export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const COLON = 0x3a;
export const OPEN_LIST = 0x5b;
export const CLOSE_LIST = 0x5d;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;

const BACKSLASH = 0x5c;

/** Of objects and lists within each other. */
export const MAX_DEPTH = 1000;

/** UTF-8's byte order mark at the start, in bytes. */
export function markLength(bytes: Buffer): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
}

export function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Past the closing quote of the string that begins at `start`; null: there is none. */
export function endOfString(bytes: Buffer, start: number): number | null {
  for (let from = start + 1; ; ) {
    const quote = bytes.indexOf(QUOTE, from);
    if (quote === -1) return null;
    let before = quote;
    while (bytes[before - 1] === BACKSLASH) before--;
    if ((quote - before) % 2 === 0) return quote + 1;
    from = quote + 1;
  }
}
