// The spaces that `clean_up_tokenization_spaces` takes out of decoded text, on a stream.

/** In this order, each over the whole text. */
const REPLACEMENTS: readonly [from: string, to: string][] = [
  [" .", "."],
  [" ?", "?"],
  [" !", "!"],
  [" ,", ","],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

const LONGEST = Math.max(...REPLACEMENTS.map(([from]) => from.length));

/**
 * Pieces in, cleaned pieces out; their join is the cleaned whole. Every replaced text begins with a space, so what
 * follows the last space is held until it is too long to match; and since " ' " also ends with one, a cut never falls
 * right after " '".
 */
export class SpaceCleaner {
  private held = "";

  push(text: string): string {
    this.held += text;
    const cut = this.safeCut();
    const ready = this.held.slice(0, cut);
    this.held = this.held.slice(cut);
    return clean(ready);
  }

  flush(): string {
    const rest = this.held;
    this.held = "";
    return clean(rest);
  }

  fork(): SpaceCleaner {
    const fork = new SpaceCleaner();
    fork.held = this.held;
    return fork;
  }

  private safeCut(): number {
    let cut = this.held.lastIndexOf(" ");
    if (cut < 0 || this.held.length - cut >= LONGEST) return this.held.length;
    while (cut >= 2 && this.held[cut - 1] === "'" && this.held[cut - 2] === " ") cut -= 2;
    return cut;
  }
}

function clean(text: string): string {
  if (!text.includes(" ")) return text;
  return REPLACEMENTS.reduce((cleaned, [from, to]) => cleaned.replaceAll(from, to), text);
}
