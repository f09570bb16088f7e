/** What a model wrote must not steer the terminal: control characters but line ends are replaced. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => (character === "\n" ? "\n" : character === "\t" ? "  " : "\ufffd"));
}
